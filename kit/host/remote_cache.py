"""Caches of other machines, which provide what this machine lacks: a shared directory, or HTTP. Each answer is checked
against its digest before use, and stored only where the caller asks. Too slow a transfer is aborted."""

from __future__ import annotations

import base64
import errno
import hashlib
import http.client
import ipaddress
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar
from urllib.parse import quote, unquote, urlsplit

from kit.core.codec import decode_json
from kit.core.errors import KitError, RunError, UsageError, said_by_system
from kit.core.redact import redact
from kit.core.regular import open_regular

T = TypeVar("T")

#: Addresses of caches, separated by blanks, the preferred one first.
VARIABLE = "KIT_CACHE_FROM"
#: Variables that a process of the kit needs to reach them as its user does; certificates as OpenSSL finds them.
_NEEDED = (VARIABLE, "SSL_CERT_FILE", "SSL_CERT_DIR")
_CHUNK = 1 << 20
_RECORD = 1 << 20  # maximum bytes of a record
_REPORT_EVERY = 10.0  # seconds between two progress messages


@dataclass(frozen=True)
class Peer:
    """A cache of another machine."""

    place: str  # an absolute path or a URL, with the layout of a cache's directory

    def __str__(self) -> str:
        return redact(self.place)

    def record(self, kind: type[T], name: str) -> T | None:
        """Return the record of an entry as JSON; None if the peer lacks it. Raises KitError."""
        with self._open(name) as chunks:
            if chunks is None:
                return None
            text = b""
            for data in chunks:
                text += data
                if len(text) > _RECORD:
                    raise RunError(f"{name} is not a record")
        return decode_json(kind, text)

    def has(self, name: str) -> bool:
        """Raises KitError."""
        with self._open(name) as chunks:
            return chunks is not None

    def bring(self, name: str, target: Path, size: int, digest: str | None, tell: Callable[[str], None]) -> None:
        """Write a file with this number of bytes. ``digest``: its SHA-256; None if the caller checks the content.
        Raises KitError with what is wrong in the file."""
        hasher, reported_at = hashlib.sha256(), time.monotonic()
        with self._open(name) as chunks, target.open("wb") as file:
            if chunks is None:
                raise RunError(f"it has no {name}")
            for data in chunks:
                hasher.update(data)
                file.write(data)
                if file.tell() > size:
                    raise RunError(f"{name} is longer than its record says")
                if time.monotonic() - reported_at > _REPORT_EVERY:
                    reported_at = time.monotonic()
                    tell(f"{name}: {file.tell() >> 20} of {size >> 20} MiB")
            if file.tell() < size:
                raise RunError(f"{name} is shorter than its record says")
        if digest is not None and hasher.hexdigest() != digest:
            raise RunError(f"{name} is not what its record says: digest {hasher.hexdigest()[:12]}, not {digest[:12]}")

    def directory(self, name: str) -> Path | None:
        """Return the names in a readable directory; None for an unreadable one and for HTTP, which lists nothing."""
        path = Path(self.place) / name
        return path if self._local and path.is_dir() and not path.is_symlink() else None

    @property
    def _local(self) -> bool:
        return self.place.startswith("/")

    @contextmanager
    def _open(self, name: str) -> Iterator[Iterator[bytes] | None]:
        """Yield the bytes of a file; None if the file is missing."""
        with _file(Path(self.place), name) if self._local else http_file(self.place, name) as chunks:
            yield chunks


@contextmanager
def _file(top: Path, name: str) -> Iterator[Iterator[bytes] | None]:
    if not top.is_dir():
        raise RunError("no such directory")
    try:
        file = open_regular(top / name, os.O_NOFOLLOW)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise RunError(f"{name} is a symlink" if error.errno == errno.ELOOP else said_by_system(error)) from None
    with file:
        yield iter(lambda: file.read(_CHUNK), b"")


def parse_peer(text: str) -> Peer:
    """Return a peer for a directory or a URL. Raises UsageError, also for a URL without protection against
    tampering."""
    if "://" not in text:
        return Peer(str(Path(text).absolute()))
    try:
        parts = urlsplit(text)
    except ValueError:
        raise UsageError(f"{redact(text)}: no URL", "use for example https://b1.example.org/kit") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(
            f"{redact(text)}: no directory, and no URL of a cache", "use for example https://b1.example.org/kit"
        )
    if parts.scheme == "http" and not _loopback(parts.hostname):
        raise UsageError(
            f"{redact(text)}: without TLS another server could answer, and its images run as root here",
            "use https://, a shared directory, or ssh -L to a port of 127.0.0.1",
        )
    return Peer(text)


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def use_peers(places: Sequence[str]) -> None:
    """Set the peers for all later look-ups of this process. Raises UsageError."""
    if any(len(place.split()) != 1 for place in places):
        raise UsageError("a cache's place has no blanks in it", "use a symlink without blanks to that directory")
    peers = [parse_peer(place) for place in places or os.environ.get(VARIABLE, "").split()]
    if peers:
        os.environ[VARIABLE] = " ".join(peer.place for peer in peers)


def peers_environment() -> Mapping[str, str]:
    """Return the environment for a process that uses the same peers."""
    return {name: os.environ[name] for name in _NEEDED if name in os.environ}


def from_peers(what: str, take: Callable[[Peer], T | None], tell: Callable[[str], None]) -> T | None:
    """Return what the first peer that has the entry gives; None if no peer has it. ``take`` raises KitError for an
    unusable peer: it is reported, and the next peer is asked. Raises UsageError for an invalid address."""
    for peer in map(parse_peer, os.environ.get(VARIABLE, "").split()):
        try:
            entry = take(peer)
        except (KitError, OSError) as error:
            reason = error.message if isinstance(error, KitError) else said_by_system(error)
            tell(f"{what} is not copied from {peer}: {reason}")
            continue
        if entry is not None:
            return entry
    return None


_ANSWERS = 20.0  # seconds for a connection, and until the next bytes
#: Each window of _WINDOW seconds spent waiting for the server, headers included, must bring at least _LEAST bytes.
_WINDOW, _LEAST = 20, 320 << 10
_TICK = 0.1  # seconds


@contextmanager
def http_file(place: str, name: str) -> Iterator[Iterator[bytes] | None]:
    """Yield the bytes of a file below a URL; None if the file is missing. Raises RunError."""
    parts = urlsplit(place)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    headers = {}
    if parts.username:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=_ANSWERS)
        connection.connect()
    except (OSError, ValueError) as error:
        raise RunError(_no_answer(error)) from None
    with _Watch(connection.sock) as watch:
        try:
            with watch.waiting_for_server():
                connection.request("GET", f"{parts.path.rstrip('/')}/{quote(name)}", headers=headers)
                answer = connection.getresponse()
            if answer.status in (404, 410):
                yield None
            elif answer.status != 200:
                raise RunError(f"it answers {answer.status} {answer.reason or ''}".strip())
            else:
                yield _chunks(answer, watch)
        finally:
            connection.close()


def _chunks(answer: http.client.HTTPResponse, watch: _Watch) -> Iterator[bytes]:
    while True:
        with watch.waiting_for_server():
            data = answer.read1(_CHUNK)
        watch.received += len(data)
        if not data:
            return
        yield data


def _no_answer(error: Exception) -> str:
    return f"no answer: {redact(' '.join(str(error).split()) or type(error).__name__)[:200]}"


class _Watch:
    """Ends a connection that delivers too few bytes, from a thread of its own. A server that sends one byte now and
    then would otherwise be awaited without end. The time that this machine takes to store the bytes does not count."""

    def __init__(self, connection: socket.socket) -> None:
        self.received = 0
        self._connection = connection
        self._waits = self._slow = False
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @contextmanager
    def waiting_for_server(self) -> Iterator[None]:
        """Raises RunError if the connection failed or was ended."""
        self._waits = True
        failed = ""
        try:
            yield
        except (OSError, http.client.HTTPException, ValueError) as error:
            failed = _no_answer(error)
        finally:
            self._waits = False
        if self._slow:
            raise RunError(f"it is too slow: it sends less than {_LEAST // _WINDOW >> 10} KiB/s")
        if failed:
            raise RunError(failed)

    def _run(self) -> None:
        waited, before = 0.0, 0
        while not self._over.wait(_TICK):
            waited += _TICK * self._waits
            if waited >= _WINDOW:
                if self.received - before < _LEAST:
                    self._slow = True
                    with suppress(OSError):  # not SSLSocket's, which makes the other thread read encrypted data
                        socket.socket.shutdown(self._connection, socket.SHUT_RDWR)
                    return
                waited, before = 0.0, self.received
