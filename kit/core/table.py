"""A table that a user wrote, checked against the type that owns its keys. That type is a frozen dataclass, or a
TypedDict if it matters which keys were given. Pure.

msgspec checks the values strictly: a string is not a list of letters, true is not a number. Errors here name the key
alone; the caller adds the file and the fix."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec
from msgspec import inspect

T = TypeVar("T")


class TableError(Exception):
    """A key does not match its type. Not a KitError: the caller names file and fix."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class UnknownKeyError(TableError):
    """An unknown key. ``known``: the existing keys."""

    def __init__(self, key: str, keys: list[str]) -> None:
        super().__init__(key)
        self.known = ", ".join(sorted(keys))


class MissingKeyError(TableError):
    """A required key is missing. ``wanted``: its type, as a noun."""

    def __init__(self, key: str, expected: str) -> None:
        super().__init__(key)
        self.wanted = expected


class WrongTypeError(TableError):
    """A value has the wrong type. ``key``: '' if the whole is not a table. ``wanted``: its type, as a noun. ``found``:
    the actual type."""

    def __init__(self, key: str, expected: str, value: Any) -> None:
        super().__init__(key)
        self.wanted = expected
        self.found = type(value).__name__


def read_table(kind: type[T], data: Any, **fixed: Any) -> T:
    """Return the value that ``data`` describes, with the ``fixed`` fields, which are no keys. Raises TableError for the
    first unknown key, else for the first wrong one."""
    if not isinstance(data, dict):
        raise WrongTypeError("", "a table", data)
    make: Any = kind
    types, needed = _keys(make)
    types = {key: types[key] for key in types if key not in fixed}
    for key in data:
        if key not in types:
            raise UnknownKeyError(key, list(types))
    values = {key: _convert(key, value, types[key]) for key, value in data.items()}
    for key in types:
        if key in needed and key not in data:
            raise MissingKeyError(key, _wanted(inspect.type_info(types[key])))
    value: T = make(**values, **fixed)
    return value


def described_keys(kind: Any) -> dict[str, str]:
    """Return what each key of the type is: the text beside the key's type, ``Annotated[str, "text"]``, or ''."""
    types = get_type_hints(kind, include_extras=True)
    return {
        key: next((text for text in getattr(hint, "__metadata__", ()) if isinstance(text, str)), "")
        for key, hint in types.items()
    }


@cache
def _keys(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Return keys with their types, and the required keys."""
    types = get_type_hints(kind, include_extras=True)
    if not is_dataclass(kind):
        return types, getattr(kind, "__required_keys__", frozenset())
    needed = [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]
    return types, frozenset(needed)


def _convert(key: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise WrongTypeError(key, _wanted(inspect.type_info(kind), value), value) from None


def _wanted(kind: inspect.Type, value: Any = None) -> str:
    """Return the name of that type's values; for a list of lists, the name of the faulty list's."""
    match kind:
        case inspect.StrType():
            return "a string"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number"
        case inspect.DictType():
            return "a table"
        case inspect.VarTupleType(item_type=inspect.VarTupleType()):
            return "a list of strings" if isinstance(value, list) else "a list of commands"
        case inspect.VarTupleType(item_type=inspect.StrType()):
            return "a list of strings"
        case inspect.ListType():
            return "an array of tables"
        case inspect.UnionType(types=types):  # or None
            return _wanted(next(each for each in types if not isinstance(each, inspect.NoneType)), value)
    return "a number within bounds"
