"""Sizes, times, percentages and pairs as users write them. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from kit.core.errors import UsageError

#: The name of one of several commands or revisions.
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.~^-]{0,39}"
_LARGEST = 1 << 60  # bytes
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def pairs(values: tuple[str, ...], option: str) -> tuple[tuple[str, str], ...]:
    """Return ``KEY=VALUE`` of a repeatable option as a mapping. Raises UsageError."""
    entries = []
    for value in values:
        key, equals, text = value.partition("=")
        if not key or not equals:
            raise UsageError(f"{option} {value}: not KEY=VALUE", f"use for example {option} jobs=4")
        entries.append((key, text))
    return tuple(entries)


def named(values: Mapping[str, Any] | Iterable[str], option: str) -> tuple[tuple[str, str], ...]:
    """Return texts by name: of a table, or of ``NAME=TEXT`` or ``TEXT`` alone, whose name then consists of its words.
    Raises UsageError."""
    texts: dict[str, str] = {}
    for name, text in table_pairs(values, option) if isinstance(values, Mapping) else map(_named, values):
        if not re.fullmatch(NAME, name):
            hint = f"use {option} NAME=… with letters, digits, '_', '.' and '-', 40 at most"
            raise UsageError(f"{option} {name or text}: not usable as a name", hint)
        if not text.strip():
            raise UsageError(f"{option} {name}: nothing behind the name", f"use for example {option} {name}=…")
        if name in texts:
            raise UsageError(f"{option}: two are called '{name}'", f"name each: {option} NAME=…")
        texts[name] = text
    return tuple(texts.items())


def _named(value: str) -> tuple[str, str]:
    match = re.fullmatch(rf"({NAME})=(.*)", value, re.DOTALL)
    if match:
        return match[1], match[2]
    return re.sub(r"[^A-Za-z0-9_.~^]+", "-", value).strip("-.~^")[:40].rstrip("-.~^"), value


def table_pairs(table: Mapping[str, Any], name: str) -> tuple[tuple[str, str], ...]:
    """Return a table of texts and numbers as texts; ``name`` names it in errors. Raises UsageError."""
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UsageError(f"{name}.{key} is neither text nor a number", f'use {key} = "1,2,4"')
    return tuple((key, str(value)) for key, value in table.items())


def split_words(text: str, what: str) -> list[str]:
    """Return words as a shell would split them. ``what`` names the text in errors. Raises UsageError."""
    return shlex.split(splittable(text, what))


def splittable(text: str, what: str) -> str:
    """Return the text, if a shell could split it into words. Raises UsageError."""
    try:
        shlex.split(text)
    except ValueError as error:
        reason = str(error).removeprefix("No ").lower()
        raise UsageError(f"{what} {text}: no {reason}", "put a word that holds a quote in the other quotes") from None
    return text


def word_pairs(values: tuple[str, ...], option: str) -> tuple[tuple[str, str], ...]:
    """Return ``KEY=WORDS`` of a repeatable option as a mapping. Raises UsageError, also if the words can't be split."""
    return tuple((key, splittable(text, f"{option} {key}:")) for key, text in pairs(values, option))


def size(text: str, option: str = "--size") -> int:
    """Return ``20G`` in bytes. Raises UsageError."""
    match = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", text.upper())
    if not match or not 0 < int(match[1]) * _UNITS[match[2]] <= _LARGEST:
        raise UsageError(f"{option} {text}: not a size", f"use for example {option} 20G")
    return int(match[1]) * _UNITS[match[2]]


def cpu_list(text: str, option: str = "--cpuset") -> tuple[int, ...]:
    """Return ``0-3,6`` as the numbers of CPUs (cpuset(7), list format). Raises UsageError."""
    cpus: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", part.strip())
        if not match or int(match[1]) > int(match[2] or match[1]):
            raise UsageError(f"{option} {text}: not a list of CPUs", f"use for example {option} 0-3,6")
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(cpus))


def percentage(text: str, option: str) -> float:
    """Return ``2%`` or ``2 %`` as 0.02. Raises UsageError."""
    match = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,9})?)\s*%", text.strip())
    if not match or not 0 < float(match[1]) < 100:
        raise UsageError(f"{option} {text}: not a percentage", f"use for example {option} 2%")
    return float(match[1]) / 100


_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def duration(text: str, option: str) -> float:
    """Return ``90s``, ``30m``, ``2h``, ``1h30m`` or ``90d`` in seconds. Raises UsageError."""
    match = re.fullmatch("".join(f"(?:([0-9]{{1,6}}){unit})?" for unit in _SECONDS), text.strip())
    parts = zip(match.groups(), _SECONDS.values(), strict=True) if match else ()
    seconds = sum(int(part or 0) * unit for part, unit in parts)
    if not seconds:
        raise UsageError(f"{option} {text}: not a time", f"use for example {option} 30m, or 1h30m")
    return float(seconds)


def shown_duration(seconds: float) -> str:
    """Return a duration as all output shows it: ``0.5 s``, ``45 s``, ``8 min 20 s``, ``10 min``, ``2 h 05 min``,
    ``90 d``."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours_of_day = divmod(hours, 24)
    if days > 1:
        return f"{days} d {hours_of_day} h" if hours_of_day else f"{days} d"
    if hours:
        return f"{hours} h {minutes:02d} min" if minutes else f"{hours} h"
    if minutes:
        return f"{minutes} min {remainder:02d} s" if remainder else f"{minutes} min"
    return f"{remainder} s"
