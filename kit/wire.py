"""Frozen dataclasses as JSON and back, for what a session in a guest and its host tell each other. Pure."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

T = TypeVar("T")


def encode(value: Any) -> Any:
    """A value of dataclasses, tuples, mappings, paths and plain scalars as JSON holds it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: encode(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def decode(kind: type[T], data: Any) -> T:
    """The value of that type that ``encode`` has written. Raises TypeError or KeyError where it is another's."""
    return cast(T, _decode(kind, data))


def _decode(kind: Any, data: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if data is None:
            return None
        (kind,) = (item for item in arguments if item is not type(None))
        return _decode(kind, data)
    if origin is tuple:
        kinds = [arguments[0]] * len(data) if arguments[-1] is Ellipsis else arguments
        return tuple(_decode(item, value) for item, value in zip(kinds, data, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _decode(arguments[1], value) for key, value in data.items()}
    if is_dataclass(kind):
        hints = _hints(cast(Any, kind))
        return kind(**{key: _decode(hints[key], value) for key, value in data.items()})  # type: ignore[operator]
    if kind is float and isinstance(data, int):
        return float(data)
    return Path(data) if kind is Path else data


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)
