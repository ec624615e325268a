"""A command whose subcommands are imported on use, so that its ``--help`` stays fast."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """``lazy``: each subcommand, where it is, and its line in --help."""

    def __init__(self, *words: Any, lazy: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*words, **options)
        self._lazy = lazy

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._lazy:
            return None
        command: click.Command = pkgutil.resolve_name(self._lazy[name][0])
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self._lazy.items()])
