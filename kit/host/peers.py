"""Caches of other machines, from which this one takes what it lacks: a shared directory, or HTTP. What is said there is
checked against its digest before it is used, and kept nowhere but where the caller wants it."""

from __future__ import annotations

import errno
import hashlib
import ipaddress
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote, urlsplit

from kit.core.codec import decode_json
from kit.core.errors import KitError, RunError, UsageError, said_by_system
from kit.core.redact import redact

T = TypeVar("T")

#: Caches by their places, blanks between them, most wanted first.
VARIABLE = "KIT_CACHE_FROM"
#: What a process of ours needs to reach them as its user would; certificates as OpenSSL has them.
_NEEDED = (VARIABLE, "SSL_CERT_FILE", "SSL_CERT_DIR")
_CHUNK = 1 << 20
_RECORD = 1 << 20  # bytes of a record at most
_ANSWERS = 20.0  # seconds until the next bytes
_TOLD = 10.0  # seconds between two words on how far it is


@dataclass(frozen=True)
class Peer:
    """``place``: a directory with an absolute path, or a URL, that has what a cache's directory has."""

    place: str

    def __str__(self) -> str:
        return redact(self.place)

    def record(self, kind: type[T], name: str) -> T | None:
        """What it says of an entry, JSON; None where it lacks that. Raises KitError."""
        with self._open(name) as chunks:
            if chunks is None:
                return None
            text = b""
            for data in chunks:
                text += data
                if len(text) > _RECORD:
                    raise RunError(f"{name} is no record")
        return decode_json(kind, text)

    def has(self, name: str) -> bool:
        """Raises KitError."""
        with self._open(name) as chunks:
            return chunks is not None

    def bring(self, name: str, target: Path, size: int, digest: str | None, tell: Callable[[str], None]) -> None:
        """Write a file of so many bytes. ``digest``: its SHA-256; None where the caller checks what is in it. Raises
        KitError, with what is wrong in the file then."""
        found, told = hashlib.sha256(), time.monotonic()
        with self._open(name) as chunks, target.open("wb") as file:
            if chunks is None:
                raise RunError(f"it has no {name}")
            for data in chunks:
                found.update(data)
                file.write(data)
                if file.tell() > size:
                    raise RunError(f"{name} is longer than its record says")
                if time.monotonic() - told > _TOLD:
                    told = time.monotonic()
                    tell(f"{name}: {file.tell() >> 20} of {size >> 20} MiB")
            if file.tell() < size:
                raise RunError(f"{name} is shorter than its record says")
        if digest is not None and found.hexdigest() != digest:
            raise RunError(f"{name} is not what its record says: digest {found.hexdigest()[:12]}, not {digest[:12]}")

    def directory(self, name: str) -> Path | None:
        """Where a directory can be read; None where it can't: HTTP lists none."""
        path = Path(self.place) / name
        return path if self._local and path.is_dir() and not path.is_symlink() else None

    @property
    def _local(self) -> bool:
        return self.place.startswith("/")

    @contextmanager
    def _open(self, name: str) -> Iterator[Iterator[bytes] | None]:
        """Its bytes; None where there is no such file."""
        with _file(Path(self.place), name) if self._local else _answer(self.place, name) as chunks:
            yield chunks


@contextmanager
def _file(top: Path, name: str) -> Iterator[Iterator[bytes] | None]:
    if not top.is_dir():
        raise RunError("there is no such directory")
    try:
        # What somebody else put there may be a pipe, which opening would wait for.
        descriptor = os.open(top / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise RunError(f"{name} is a symlink" if error.errno == errno.ELOOP else said_by_system(error)) from None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RunError(f"{name} is no plain file")
        yield iter(lambda: file.read(_CHUNK), b"")


@contextmanager
def _answer(place: str, name: str) -> Iterator[Iterator[bytes] | None]:
    import urllib3

    parts = urlsplit(place)
    secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    headers = urllib3.make_headers(basic_auth=secret)
    path = f"{parts.path.rstrip('/')}/{quote(name)}"
    url = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=path).geturl()
    try:
        with urllib3.PoolManager() as pool:
            answer = pool.request("GET", url, headers=headers, preload_content=False, redirect=False, retries=False,
                                  timeout=urllib3.Timeout(_ANSWERS))  # fmt: skip
            try:
                if answer.status in (404, 410):
                    yield None
                elif answer.status != 200:
                    raise RunError(f"it answers {answer.status} {answer.reason or ''}".strip())
                else:
                    yield answer.stream(_CHUNK, decode_content=False)
            finally:
                answer.close()
    except urllib3.exceptions.HTTPError as error:
        raise RunError(f"no answer: {redact(str(error))}") from None


def parse_peer(text: str) -> Peer:
    """A directory, or a URL. Raises UsageError, also for one that everybody on the way could answer for."""
    if "://" not in text:
        return Peer(str(Path(text).absolute()))
    try:
        parts = urlsplit(text)
    except ValueError:
        raise UsageError(f"{redact(text)}: no URL", "for example https://b1.example.org/kit") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(
            f"{redact(text)}: no directory, and no URL of a cache", "for example https://b1.example.org/kit"
        )
    if parts.scheme == "http" and not _loopback(parts.hostname):
        raise UsageError(
            f"{redact(text)}: anybody on the way could answer for it, and what an image holds runs as root here",
            "https://, a shared directory, or ssh -L to a port of 127.0.0.1",
        )
    return Peer(text)


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def use_peers(places: Sequence[str]) -> None:
    """For all that this process looks up from now on. Raises UsageError."""
    if any(len(place.split()) != 1 for place in places):
        raise UsageError("a cache's place has no blanks in it", "a symlink without, to a directory with")
    peers = [parse_peer(place) for place in places or os.environ.get(VARIABLE, "").split()]
    if peers:
        os.environ[VARIABLE] = " ".join(peer.place for peer in peers)


def peers_environment() -> Mapping[str, str]:
    """For a process that looks things up as this one does."""
    return {name: os.environ[name] for name in _NEEDED if name in os.environ}


def from_peers(what: str, take: Callable[[Peer], T | None], tell: Callable[[str], None]) -> T | None:
    """What the first of them gives that has it; None where none does. ``take`` raises KitError where a peer can't be
    used: that is told, and the next one asked. Raises UsageError where a place is none."""
    for peer in map(parse_peer, os.environ.get(VARIABLE, "").split()):
        try:
            found = take(peer)
        except (KitError, OSError) as error:
            reason = error.message if isinstance(error, KitError) else said_by_system(error)
            tell(f"{what} is not taken from {peer}: {reason}")
            continue
        if found is not None:
            return found
    return None
