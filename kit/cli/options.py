"""Options that several subcommands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kit.core.errors import UsageError

if TYPE_CHECKING:
    from kit.store import Store

Command = TypeVar("Command", bound=Callable[..., Any])


def store_option(command: Command) -> Command:
    return click.option(
        "--store", "store_url", metavar="URL", default="", envvar="KIT_STORE",
        help="Database of results, any SQLAlchemy URL.  [default: SQLite in the user's data directory]",
    )(command)  # fmt: skip


def wait_idle_option(command: Command) -> Command:
    return click.option(
        "--wait-idle", is_flag=False, flag_value="1h", default="", metavar="[TIME]",
        help="Wait until nothing else works on the machine; give up after TIME.  [1h]",
    )(command)  # fmt: skip


def rank_options(command: Command) -> Command:
    """What the ranking is by, and against which arm."""
    metric = click.option(
        "--rank", metavar="METRIC", default="",
        help="Rank arms by this: real, cpu_total, …, or a figure of the workload's.  [default: whole, real + flush]",
    )  # fmt: skip
    reference = click.option(
        "--reference", metavar="ARM", default="",
        help="Rank against this arm.  [default: layer:overlay2 where it ran, else the best]",
    )  # fmt: skip
    return metric(reference(command))


def json_flag(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def the_store(url: str, read_only: bool = False) -> Store:
    from kit.core.paths import find_paths
    from kit.store import open_store

    return open_store(url, find_paths().data / "kit.db", read_only, lambda text: click.echo(f"kit: {text}", err=True))


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
