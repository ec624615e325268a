"""Which devices a session may overwrite: those that are empty, and those that the user says now are to be wiped. What
he said when the session began is not kept: a name may be another device's by now, and hold another's data."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kit.core.errors import UsageError
from kit.filesystem.device import check_device, identity
from kit.model.fact import DEVICE, Fact
from kit.model.session import Request, Session


def device_facts(request: Request) -> list[Fact]:
    """What the devices are that a session is about to use; kept, so that it never goes on upon others. Raises
    UsageError."""
    return [DEVICE.fact(identity(device), what) for what, device in _devices(request).items()]


def check_devices(session: Session, wipe: Collection[Path]) -> None:
    """Before a session begins or goes on: its devices are those that it began with, and may be overwritten. Changes
    nothing. Raises UsageError."""
    devices = _devices(session.request)
    for device in wipe:
        if device not in devices.values():
            raise UsageError(f"--wipe {device}: this session uses no such device", "name it as --device does")
    for what, device in devices.items():
        then, now = DEVICE.text(session.facts, "unknown", what), identity(device)
        if then != now:
            raise UsageError(
                f"{device} is not the {what} that session {session.id} began with: it is {now}, and was {then}",
                "attach that one under this name, or start a new session",
            )
        check_device(device, wipe)


def _devices(request: Request) -> dict[str, Path]:
    named = {"device": request.device, "thin device": request.thin_device}
    return {what: Path(text) for what, text in named.items() if text}
