"""Frozen dataclasses as JSON and back: every leaf from another process or an earlier kit is checked. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from msgspec import Meta

from kit.core.errors import UsageError

T = TypeVar("T")
#: msgspec learns a dataclass when it first meets it, and crashes the process if two threads do so at the same time
#: (0.21: a segmentation fault if one thread sees the half-made result of the other).
_LEARNING = Lock()
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class UnreadableError(UsageError):
    """A value is not of the type that the kit expects."""


#: Leaves with bounds, for dataclasses that are decoded. A plain ``float`` may be infinite or no number.
Finite = Annotated[float, Meta(ge=-1e18, le=1e18)]
Amount = Annotated[float, Meta(ge=0, le=1e18)]  # of what there can't be less than nothing
Moment = Annotated[float, Meta(ge=0, le=253402300799)]  # Unix time until the year 9999, where dates end
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]  # as a database holds it
Code = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


def encode(value: Any, place: Callable[[Path], Path] = lambda path: path) -> Any:
    """Return a value of dataclasses, tuples, mappings, paths and plain scalars as JSON types. ``place``: maps a local
    path to the reader's."""

    def encode_other(other: Any) -> Any:
        if isinstance(other, Mapping):
            return dict(other)
        if isinstance(other, Path):
            return str(place(other))
        raise TypeError(f"{type(other).__name__} can't be written")

    return msgspec.to_builtins(value, enc_hook=encode_other)


def encode_json(value: Any) -> str:
    """Return the same as JSON text, in one line. Raises ValueError if a float is infinite or not a number."""
    return json.dumps(_all_storable(encode(value)), allow_nan=False)


def storable(text: str) -> str:
    """Return text with U+FFFD for characters that no database or file accepts: NUL, and non-UTF-8 bytes."""
    return _UNSTORABLE.sub("\ufffd", text)


def by_tag(union: Any) -> Mapping[str, type[Any]]:
    """Return the dataclasses of a union by the names that ``encode_tagged`` gives them."""
    return {kind.__name__.lower(): kind for kind in get_args(union)}


def encode_tagged(value: Any) -> bytes:
    """Return a dataclass and its name as a line of JSON: ``["runsadded", {"runs": 2}]``."""
    return encode_json([type(value).__name__.lower(), value]).encode()


def decode_tagged(kinds: Mapping[str, type[T]], data: Any) -> T:
    """Return the value of such a line, parsed. Raises UnreadableError."""
    match data:
        case [str(name), dict(values)] if name in kinds:
            return decode(kinds[name], values)
    raise UnreadableError(f"unknown message: {str(data)[:60]}", "use one version of the kit on both sides")


def _all_storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(name): _all_storable(entry) for name, entry in value.items()}
    return [_all_storable(element) for element in value] if isinstance(value, (list, tuple)) else value


def decode(kind: type[T], data: Any) -> T:
    """Return the value of that type from the output of ``encode``. Raises UnreadableError for another type's."""
    _decoder(kind)
    try:
        return msgspec.convert(data, kind, dec_hook=_decode_other)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, UsageError) as error:
        raise _malformed(kind, error) from None


def decode_json(kind: type[T], text: bytes | str) -> T:
    """Return the same from JSON text without NaN and infinity. Raises UnreadableError, also if nested too deep."""
    decoder: msgspec.json.Decoder[T] = _decoder(kind)
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, UsageError) as error:
        raise _malformed(kind, error) from None


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder, which also registers all dataclasses within."""
    with _LEARNING:
        return _made(kind)


@cache
def _made(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=_decode_other)


def surplus(data: Any, value: Any, where: str = "$") -> str:
    """Return the place of a name in ``data`` that ``encode`` of the decoded ``value`` lacks; '' without one."""
    if isinstance(data, dict) and isinstance(value, Mapping):
        unknown = [f"{where}.{name}" for name in data if name not in value]
        below = (surplus(entry, value[name], f"{where}.{name}") for name, entry in data.items() if name in value)
    elif isinstance(data, list):
        unknown = []
        pairs = enumerate(zip(data, value, strict=True))
        below = (surplus(element, decoded, f"{where}[{number}]") for number, (element, decoded) in pairs)
    else:
        return ""
    return next(filter(None, [*unknown, *below]), "")


def _malformed(kind: Any, error: Exception) -> UnreadableError:
    """Return the error: msgspec says what it expected, what it found, and where."""
    reason = "nested too deep" if isinstance(error, RecursionError) else getattr(error, "message", str(error))
    return UnreadableError(
        f"not a {getattr(kind, '__name__', kind)} as the kit writes it: {reason}",
        "use the version of the kit that wrote it",
    )


def _decode_other(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")
