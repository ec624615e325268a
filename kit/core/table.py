"""A table that a user wrote, held against the type that owns its keys: a frozen dataclass, or a TypedDict where it
matters which keys were given. Pure.

msgspec checks the values, strictly: a string is no list of letters, true is no number. Whose file it is says where and
how to mend it: what is raised here names the key alone.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec
from msgspec import inspect

T = TypeVar("T")


class TableError(Exception):
    """A key is not as its type has it. No KitError: file and fix are the caller's to say."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class UnknownKeyError(TableError):
    """``known``: the keys that there are."""

    def __init__(self, key: str, known: list[str]) -> None:
        super().__init__(key)
        self.known = ", ".join(sorted(known))


class MissingKeyError(TableError):
    """A key without which the table says nothing. ``wanted``: what it must be, as a noun."""

    def __init__(self, key: str, wanted: str) -> None:
        super().__init__(key)
        self.wanted = wanted


class WrongTypeError(TableError):
    """``key``: '' where the whole is no table. ``wanted``: what it must be, as a noun. ``found``: what it is."""

    def __init__(self, key: str, wanted: str, value: Any) -> None:
        super().__init__(key)
        self.wanted = wanted
        self.found = type(value).__name__


def read_table(kind: type[T], data: Any, **given: Any) -> T:
    """The value that ``data`` describes, with what is ``given`` beside it: fields that are no keys. Raises TableError,
    for the first unknown key, else for the first wrong one."""
    if not isinstance(data, dict):
        raise WrongTypeError("", "a table", data)
    make: Any = kind
    known, needed = _keys(make)
    known = {key: known[key] for key in known if key not in given}
    for key in data:
        if key not in known:
            raise UnknownKeyError(key, list(known))
    values = {key: _convert(key, value, known[key]) for key, value in data.items()}
    for key in known:
        if key in needed and key not in data:
            raise MissingKeyError(key, _wanted(inspect.type_info(known[key])))
    made: T = make(**values, **given)
    return made


@cache
def _keys(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Keys with their types, and those that must be given."""
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
    """What a value of that type is called; of a list of lists, one of which is at fault, that one."""
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
    return "a number within bounds"
