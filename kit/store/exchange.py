"""Sessions as one file, to take from one store to another: JSON, with each session in a line of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

import msgspec

from kit.core.codec import UnreadableError, decode_json, encode, encode_json, surplus
from kit.core.errors import UsageError
from kit.model.session import Session

#: Raised when an older kit could not read what this one writes.
EXPORT_SCHEMA = 1
_HEAD, _END = f'{{"kit-export": {EXPORT_SCHEMA}, "sessions": [', "]}\n"
_FIX = "kit export SESSION -o FILE"


class _Export(msgspec.Struct):
    """The file as a whole; its sessions are decoded one by one."""

    schema: int = msgspec.field(name="kit-export")
    sessions: tuple[msgspec.Raw, ...]


def dump_lines(sessions: Iterable[Session]) -> Iterator[str]:
    """Sessions with all their samples, as JSON; one is held at a time."""
    yield _HEAD
    separator = "\n"
    for session in sessions:
        yield f"{separator}{encode_json(session)}"
        separator = ",\n"
    yield f"\n{_END}"


def dump(sessions: Iterable[Session]) -> str:
    return "".join(dump_lines(sessions))


def is_export(text: str) -> bool:
    return text.lstrip()[:40].startswith(f'{{"{_Export.__struct_encode_fields__[0]}"')


def load_lines(lines: Iterable[bytes], source: str) -> Iterator[Session]:
    """What ``dump_lines`` wrote; ``source`` names it in errors. One session is held at a time, or the whole file where
    it is not in such lines, as older kits wrote it. Every value is checked. Raises UsageError."""
    found = iter(lines)
    first = next(found, b"")
    if first.rstrip().endswith(b'"sessions": ['):
        head = _head(first.rstrip() + b"]}", source)
        raw = _items(found, source)
    else:
        head = _head(b"".join(chain([first], found)), source)
        raw = (bytes(item) for item in head.sessions)
    if head.schema > EXPORT_SCHEMA:
        raise UsageError(f"{source}: written by a newer kit (schema {head.schema})", "update the kit")
    for number, item in enumerate(raw, 1):
        yield _session(item, f"{source}: session {number}")


def load(text: str, source: str) -> tuple[Session, ...]:
    return tuple(load_lines(text.encode(errors="replace").splitlines(keepends=True), source))


def _head(text: bytes, source: str) -> _Export:
    try:
        return decode_json(_Export, text)
    except UnreadableError as error:
        raise UsageError(f"{source}: not an export of the kit's: {error.message}", _FIX) from None


def _items(lines: Iterator[bytes], source: str) -> Iterator[bytes]:
    for line in lines:
        if line.strip() == b"]}":
            return
        yield line.strip().removesuffix(b",")
    raise UsageError(f"{source}: the file is cut off", "copy it again; its sizes must be the same on both sides")


def _session(text: bytes, where: str) -> Session:
    try:
        session = decode_json(Session, text)
    except UnreadableError as error:
        raise UsageError(f"{where}: {error.message}", error.hint or _FIX) from None
    data = msgspec.json.decode(text)
    data["request"].pop("wipe", None)  # kits before 0.6 kept consent to wipe a device; nobody reads it any more
    unknown = surplus(data, encode(session))
    if unknown:
        raise UsageError(f"{where}: {unknown} is unknown to this kit", "update the kit, or mend the file")
    return replace(session, imported=True)
