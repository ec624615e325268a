"""Sends messages through Apprise. A URL is a secret: it is neither printed nor stored, and texts name its scheme and
where it is from."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from kit.core.errors import UsageError, brief, not_installed
from kit.core.redact import HIDDEN
from kit.core.regular import read_text
from kit.core.sanitize import printable
from kit.extra.history.message import Message

#: What separates the parts of a URL; shorter parts are words, or ports.
_BETWEEN = re.compile(r"[/:@?&=#,;+]+")
_SHORTEST_SECRET = 4


@dataclass(frozen=True)
class Destination:
    """One URL of Apprise. ``origin``: where it is from. ``service``: Apprise's object for it."""

    url: str = field(repr=False)
    origin: str
    service: Any = field(repr=False)

    def __str__(self) -> str:
        return f"{_scheme(self.url)}://{HIDDEN} ({self.origin})"


def open_destinations(given: Sequence[str]) -> tuple[Destination, ...]:
    """Return the destinations of a nightly file. Nothing is sent. Raises UsageError for one that Apprise would not
    send to, MachineError without Apprise."""
    if not given:
        return ()
    try:
        import apprise
    except ImportError:
        raise not_installed("[notify] needs", "apprise", "notify") from None
    # In order, not side by side; plugins keep nothing on the disk.
    asset = apprise.AppriseAsset(app_id="kit", app_desc="storage driver test kit", async_mode=False)
    destinations = []
    for url, origin in _urls(given):
        service = apprise.Apprise.instantiate(url, asset=asset)
        if service is None:
            fix = "see https://appriseit.com/services/ for the URLs of each service"
            scheme = f"{_scheme(url)}://" if _scheme(url) else "it"
            raise UsageError(f"notify: {origin}: {scheme} is no URL that Apprise accepts", fix)
        if service.overflow_mode == apprise.OverflowMode.UPSTREAM:  # a service would refuse a text that is too long
            service.overflow_mode = apprise.OverflowMode.TRUNCATE
        destinations.append(Destination(url, origin, service))
    return tuple(destinations)


def _urls(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each URL, and where it is from. Raises UsageError."""
    for number, text in enumerate(given, 1):
        kind, _, name = text.partition(":")
        if kind == "env":
            content, origin = os.environ.get(name, ""), f"variable {name}"
            fix = f"set it; sudo removes variables without --preserve-env={name}"
        elif kind == "file":
            fix = "name a file that holds a URL"
            content, origin = read_text(Path(name), fix), f"file {name}"
        else:
            yield text, f"item {number} of urls"
            continue
        if not content.strip():
            raise UsageError(f"notify: {origin} is empty", fix)
        yield from ((url, origin) for url in content.split())


def send(message: Message, to: Destination) -> str:
    """Send a message; return why it was not sent, without the parts of the URL, or ''."""
    import apprise
    from apprise.attachment.memory import AttachMemory

    sender = apprise.Apprise(asset=to.service.asset)
    sender.add(to.service)
    file = message.attachment
    with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:
        sent = sender.notify(
            title=message.title,
            body=message.body,
            notify_type=apprise.NotifyType.FAILURE if message.bad else apprise.NotifyType.SUCCESS,
            body_format=apprise.NotifyFormat.TEXT,
            attach=[AttachMemory(content=file.content, name=file.name, mimetype=file.mime)] if file else None,
        )
        logged = log.getvalue()
    return "" if sent else brief(_without_secrets(logged, to.url)) or "Apprise does not say why"


def _without_secrets(text: str, url: str) -> str:
    """Return what a service's plugin said, without any part of its URL."""
    parts = set(_BETWEEN.split(url.partition("://")[2]))
    parts |= set(_BETWEEN.split(unquote(url).partition("://")[2]))
    for part in sorted(parts, key=len, reverse=True):
        if len(part) >= _SHORTEST_SECRET:
            text = text.replace(part, HIDDEN)
    return printable(text)


def _scheme(url: str) -> str:
    """Return the scheme; '' of what is no URL, and may be a secret as a whole."""
    match = re.match(r"([A-Za-z][A-Za-z0-9.+-]{0,20})://", url)
    return match[1] if match else ""
