"""Sessions as one file, to copy from one store to another: JSON, with each session in a line of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

import msgspec

from kit.core.codec import UnreadableError, decode_json, encode, encode_json, surplus
from kit.core.errors import UsageError
from kit.model.arm import MOST_ARMS
from kit.model.sample import Sample
from kit.model.session import Session

#: Raised when an older kit could not read this version's files.
EXPORT_SCHEMA = 3
_HEAD, _END = f'{{"kit-export": {EXPORT_SCHEMA}, "sessions": [', "]}\n"
_FIX = "kit export SESSION -o FILE"
_NONE = msgspec.Raw(b"[]")
#: Limits of a session: bytes, objects and values. A megabyte of JSON may become a hundred of memory. The kit's largest
#: session, fifty runs of a build of six thousand tasks, has two thirds of each.
_LONGEST, _MOST_OBJECTS, _MOST_VALUES, _MOST_SAMPLES = 64 << 20, 500_000, 4_000_000, 100_000
_FEWER = "no session of the kit's has as many: export it again"
#: Keys that older kits wrote and nobody reads any more: consent to wipe a device, and the test of a bisection's step.
_GONE = (("request", "wipe"), ("request", "test"), ("plan", "test"))
T = TypeVar("T")


class _Export(msgspec.Struct):
    """The file as a whole; its sessions are decoded one by one."""

    schema: int = msgspec.field(name="kit-export")
    sessions: tuple[msgspec.Raw, ...]


def dump_lines(sessions: Iterable[Session]) -> Iterator[str]:
    """Yield sessions with all their samples, as JSON, with one in memory at a time."""
    yield _HEAD
    separator = "\n"
    for session in sessions:
        yield f"{separator}{encode_json(session)}"
        separator = ",\n"
    yield f"\n{_END}"


def is_export(text: str) -> bool:
    return text.lstrip()[:40].startswith(f'{{"{_Export.__struct_encode_fields__[0]}"')


def load_lines(lines: Iterable[bytes], source: str) -> Iterator[Session]:
    """Yield the sessions that ``dump_lines`` wrote; ``source`` names the file in errors. One session is in memory at a
    time, or the whole file if jq, for example, has changed its lines. Every value is checked. Raises UsageError."""
    bounded = _bounded(lines, source)
    first = next(bounded, b"")
    if first.rstrip().endswith(b'"sessions": ['):
        head = _head(first.rstrip() + b"]}", source)
        raw = _items(bounded, source)
    else:
        head = _head(next(_bounded([b"".join(chain([first], bounded))], source)), source)
        raw = (bytes(text) for text in head.sessions)
    if head.schema > EXPORT_SCHEMA:
        raise UsageError(f"{source}: written by a newer kit (schema {head.schema})", "update the kit")
    for number, text in enumerate(raw, 1):
        yield _session(text, f"{source}: session {number}")


def _bounded(lines: Iterable[bytes], source: str) -> Iterator[bytes]:
    for line in lines:
        if len(line) > _LONGEST:
            raise UsageError(f"{source}: a session of more than {_LONGEST >> 20} MiB", "export it with this kit")
        yield line


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
    """Return the session. Samples are decoded one by one, so only one is in memory twice."""
    for sign, most, what in ((b"{", _MOST_OBJECTS, "objects"), (b",", _MOST_VALUES, "values")):
        if text.count(sign) > most:
            raise UsageError(f"{where}: it has more than {most} {what}", _FEWER)
    parts = _decoded(dict[str, msgspec.Raw], text, where)
    samples = _decoded(tuple[msgspec.Raw, ...], bytes(parts.pop("samples", _NONE)), where)
    if len(samples) > _MOST_SAMPLES:
        raise UsageError(f"{where}: it has more than {_MOST_SAMPLES} samples", _FEWER)
    session = _checked(Session, msgspec.json.encode(parts), where)
    if len({*session.arms}) < len(session.arms) or len(session.arms) > MOST_ARMS:
        raise UsageError(f"{where}: an arm is listed twice, or more than {MOST_ARMS} are", _FIX)
    decoded = (_checked(Sample, bytes(raw), where, f"$.samples[{index}]") for index, raw in enumerate(samples))
    return replace(session, samples=tuple(decoded), imported=True)


def _checked(kind: type[T], text: bytes, where: str, at: str = "$") -> T:
    value = _decoded(kind, text, where, at)
    data = _decoded(dict[str, Any], text, where, at)  # also what the value leaves out is UTF-8
    for part, key in _GONE:
        if isinstance(within := data.get(part), dict):
            within.pop(key, None)
    unknown = surplus(data, encode(value), at)
    if unknown:
        raise UsageError(f"{where}: {unknown} is unknown to this kit", "update the kit, or fix the file")
    return value


def _decoded(kind: type[T], text: bytes, where: str, at: str = "$") -> T:
    """Return the decoded text. ``at``: its place in the session."""
    try:
        return decode_json(kind, text)
    except UnreadableError as error:
        raise UsageError(f"{where}: {error.message.replace('`$', f'`{at}')}", error.hint or _FIX) from None
