"""Options that several subcommands share, and how their values are read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kit.errors import UsageError

if TYPE_CHECKING:
    from kit.store import Store

Command = TypeVar("Command", bound=Callable[..., Any])

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def store_option(command: Command) -> Command:
    return click.option(
        "--store", "store_url", metavar="URL", default="", envvar="KIT_STORE",
        help="Database of results, any SQLAlchemy URL.  [default: SQLite in the user's data directory]",
    )(command)  # fmt: skip


def json_flag(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def the_store(url: str) -> Store:
    from kit.paths import find_paths
    from kit.store import open_store

    return open_store(url, find_paths().data / "kit.db")


def pairs(values: tuple[str, ...], option: str) -> tuple[tuple[str, str], ...]:
    """``KEY=VALUE`` of a repeatable option. Raises UsageError."""
    found = []
    for value in values:
        key, equals, text = value.partition("=")
        if not key or not equals:
            raise UsageError(f"{option} {value}: not KEY=VALUE", f"for example {option} jobs=4")
        found.append((key, text))
    return tuple(found)


def size(text: str, option: str = "--size") -> int:
    """``20G`` in bytes. Raises UsageError."""
    match = re.fullmatch(r"(\d+)([KMGT]?)", text.upper())
    if not match or not int(match[1]):
        raise UsageError(f"{option} {text}: not a size", f"for example {option} 20G")
    return int(match[1]) * _UNITS[match[2]]


def percentage(text: str, option: str) -> float:
    """``2%`` or ``2 %`` as 0.02. Raises UsageError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip())
    if not match or not 0 < float(match[1]) < 100:
        raise UsageError(f"{option} {text}: not a percentage", f"for example {option} 2%")
    return float(match[1]) / 100


def duration(text: str, option: str) -> float:
    """``90s``, ``30m``, ``2h`` or ``1h30m`` in seconds. Raises UsageError."""
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text.strip())
    seconds = (
        sum(int(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True)) if match else 0
    )
    if not seconds:
        raise UsageError(f"{option} {text}: not a time", f"for example {option} 30m, or 1h30m")
    return float(seconds)


def check_writable(path: str | None) -> None:
    """Before hours of measuring, not after. Raises UsageError."""
    if path and path != "-":
        directory = Path(path).absolute().parent
        if not os.access(directory, os.W_OK) or Path(path).is_dir():
            raise UsageError(f"{path} can't be written", "name a file in a directory that you may write to")


def write(path: str, text: str) -> None:
    """Write a report; ``-`` is stdout. Raises UsageError."""
    if path == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a file in a directory that you may write to") from None
