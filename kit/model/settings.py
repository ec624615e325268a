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
SHARED_OPTIONS: Mapping[str, Option] = {name: option for name, option in OPTIONS.items() if option.in_settings}
#: Names of all settings, and their types in a file.
KEYS: Mapping[str, Any] = {
    **_OTHERS,
    **{name: option.file_type for name, option in SHARED_OPTIONS.items()},
}
_Table: Any = TypedDict("_Table", dict(KEYS), total=False)  # type: ignore[misc]


@dataclass(frozen=True)
class ConfigEntry:
    """One setting of a file."""

    key: str
    value: Any  # as the file has it
    where: str  # the file and, if found, the line


def read_settings(text: str, source: str, table: str = "") -> tuple[ConfigEntry, ...]:
    """Return the settings of a file, or of the ``table`` in it, such as ``tool.kit``. Raises UsageError."""
    data: Any = parse_toml(text, source)
    for part in filter(None, table.split(".")):
        data = data.get(part, {}) if isinstance(data, dict) else {}
    lines = dict(_lines(text, table))

    def where(key: str) -> str:
        return f"{source}:{lines[key]}" if key in lines else source

    try:
        values: Mapping[str, Any] = read_table(_Table, data)
    except UnknownKeyError as error:
        hint = f"use one of: {error.known}"
        raise UsageError(f"{where(error.key)}: unknown key '{error.key}'", hint) from None
    except WrongTypeError as error:
        if not error.key:
            raise UsageError(f"{source}: {table} is not a table", f"use [{table}]") from None
        hint = "see kit config --help for an example"
        raise UsageError(f"{where(error.key)}: {error.key} must be {error.wanted}", hint) from None
    settings = tuple(ConfigEntry(key, values[key], where(key)) for key in values)
    for entry in settings:
        _check(entry)
    return settings


def _check(entry: ConfigEntry) -> None:
    if entry.key in OPTIONS:
        OPTIONS[entry.key].check_choice(entry.value, entry.where)
    try:
        read_options({entry.key: entry.value}, "")
    except UsageError as error:
        raise UsageError(f"{entry.where}: {error.message}", error.hint) from None


def merged(settings: Iterable[ConfigEntry]) -> dict[str, ConfigEntry]:
    """Return the settings that hold: of several with one key, the first. Labels of all places hold."""
    effective: dict[str, ConfigEntry] = {}
    for entry in settings:
        if entry.key == "labels" and entry.key in effective:
            first = effective[entry.key]
            entry = ConfigEntry(entry.key, {**entry.value, **first.value}, f"{first.where}, {entry.where}")
            effective[entry.key] = entry
        effective.setdefault(entry.key, entry)
    return effective


def option_values(settings: Mapping[str, ConfigEntry]) -> dict[str, Any]:
    """Return values for the options of ``kit compare``, by the name of its parameter, as a user would write them."""
    options: dict[str, Any] = {}
    for key, entry in settings.items():
        if key == "labels":
            options[key] = [f"{name}={text}" for name, text in entry.value.items()]
        elif key == "arms":
            options[key] = ",".join(entry.value)
        elif key != "store":
            options[key] = str(entry.value) if type(entry.value) is int else entry.value
    return options


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
