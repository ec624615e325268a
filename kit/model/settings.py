"""Settings: defaults of options that a user or a project keeps in a file. Pure: takes text, returns settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from kit.core.errors import UsageError
from kit.core.table import UnknownKeyError, WrongTypeError, read_table
from kit.core.toml import parse_toml
from kit.model.option import Option
from kit.model.options import OPTIONS, read_options

#: Settings that are options of commands and no fields of a request, with their types.
_OTHERS: Mapping[str, Any] = {"store": str, "arms": tuple[str, ...], "rank": str}
SHARED_OPTIONS: Mapping[str, Option] = {name: item for name, item in OPTIONS.items() if item.in_settings}
#: Names of all settings, and their types in a file.
KEYS: Mapping[str, Any] = {
    **_OTHERS,
    **{name: dict[str, Any] if item.kind is dict else item.kind for name, item in SHARED_OPTIONS.items()},
}
_Table: Any = TypedDict("_Table", dict(KEYS), total=False)  # type: ignore[misc]


@dataclass(frozen=True)
class ConfigEntry:
    """``value``: as the file has it. ``where``: the file and, if found, the line."""

    key: str
    value: Any
    where: str


def read_settings(text: str, source: str, table: str = "") -> tuple[ConfigEntry, ...]:
    """Return the settings of a file, or of the ``table`` in it, such as ``tool.kit``. Raises UsageError."""
    data: Any = parse_toml(text, source)
    for part in filter(None, table.split(".")):
        data = data.get(part, {}) if isinstance(data, dict) else {}
    lines = dict(_lines(text, table))

    def where(key: str) -> str:
        return f"{source}:{lines[key]}" if key in lines else source

    try:
        found: Mapping[str, Any] = read_table(_Table, data)
    except UnknownKeyError as error:
        hint = f"use one of: {error.known}"
        raise UsageError(f"{where(error.key)}: unknown key '{error.key}'", hint) from None
    except WrongTypeError as error:
        if not error.key:
            raise UsageError(f"{source}: {table} is not a table", f"use [{table}]") from None
        hint = "see kit config --help for an example"
        raise UsageError(f"{where(error.key)}: {error.key} must be {error.wanted}", hint) from None
    settings = tuple(ConfigEntry(key, found[key], where(key)) for key in found)
    for item in settings:
        _check(item)
    return settings


def _check(item: ConfigEntry) -> None:
    option = OPTIONS.get(item.key)
    if option and option.choices and item.value not in option.choices:
        known = ", ".join(filter(None, option.choices))
        raise UsageError(f"{item.where}: unknown {item.key} = '{item.value}'", f"use one of: {known}")
    try:
        read_options({item.key: item.value}, "")
    except UsageError as error:
        raise UsageError(f"{item.where}: {error.message}", error.hint) from None


def merged(settings: Iterable[ConfigEntry]) -> dict[str, ConfigEntry]:
    """Return the settings that hold: of several with one key, the first. Labels of all places hold."""
    found: dict[str, ConfigEntry] = {}
    for item in settings:
        if item.key == "labels" and item.key in found:
            first = found[item.key]
            item = ConfigEntry(item.key, {**item.value, **first.value}, f"{first.where}, {item.where}")
            found[item.key] = item
        found.setdefault(item.key, item)
    return found


def option_values(settings: Mapping[str, ConfigEntry]) -> dict[str, Any]:
    """Return values for the options of ``kit compare``, by the name of its parameter, as a user would write them."""
    found: dict[str, Any] = {}
    for key, item in settings.items():
        if key == "labels":
            found[key] = [f"{name}={text}" for name, text in item.value.items()]
        elif key == "arms":
            found[key] = ",".join(item.value)
        elif key != "store":
            found[key] = str(item.value) if type(item.value) is int else item.value
    return found


_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_KEY = re.compile(r"""\s*["']?([\w-]+)["']?\s*(?:\.[^=]+)?=""")


def _lines(text: str, table: str) -> Iterator[tuple[str, int]]:
    """Yield each key of the table and its line, as people write them; a file with other layouts has fewer."""
    now = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            now = re.sub(r"\s*\.\s*", ".", header[1])
            parent, _, key = now.rpartition(".")
            if parent == table:
                yield key, number
        elif now == table and (key_found := _KEY.match(line)):
            yield key_found[1], number
