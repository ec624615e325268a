"""A command whose subcommands are imported on use, so that its ``--help`` stays fast."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any

import click

#: The subcommands below a heading of --help: module and line of each.
Section = Mapping[str, tuple[str, str]]


class LazyGroup(click.Group):
    """A group of commands. ``sections``: by heading."""

    def __init__(self, *words: Any, sections: Mapping[str, Section], **options: Any) -> None:
        super().__init__(*words, **options)
        self.sections = sections
        self._entries = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._entries)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._entries:
            return None
        command: click.Command = pkgutil.resolve_name(self._entries[name][0])
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self._entries))
        for heading, section in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), summary) for name, (_, summary) in section.items()])
