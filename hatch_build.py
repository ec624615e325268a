"""Build hook of the wheel: a man page for each command, written from its click help."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface[Any]):
    """Puts the pages into ``share/man/man1`` of the environment that the wheel is installed in."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._made = tempfile.TemporaryDirectory()
        sys.path.insert(0, self.root)
        for name, text in pages():
            path = Path(self._made.name, f"{name}.1")
            path.write_text(text, "utf-8")
            build_data["shared_data"][str(path)] = f"share/man/man1/{name}.1"


def pages() -> Iterator[tuple[str, str]]:
    """Return the name and the text of each page: ``kit``, ``kit-compare``, ``kit-image-list``."""
    import click

    from kit import __version__
    from kit.cli import cli

    def walk(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
        name = context.command_path.replace(" ", "-")
        context.meta["kit.help_all"] = True
        yield name, _page(name, __version__, command.get_short_help_str(200), command.get_help(context))
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                found = command.get_command(context, each)
                if found is not None:
                    yield from walk(found, found.context_class(found, info_name=each, parent=context))

    yield from walk(cli, cli.context_class(cli, info_name="kit", max_content_width=78, terminal_width=78))


def _page(name: str, version: str, summary: str, text: str) -> str:
    """Return the help as it is on a screen, below the headings of a man page."""
    usage, _, rest = text.partition("\n\n")
    usage = usage.removeprefix("Usage: ")
    return (
        f'.TH {name.upper()} 1 "" "kit {version}" "User Commands"\n.SH NAME\n{name} \\- {_escaped(summary)}\n'
        f".SH SYNOPSIS\n.nf\n{_escaped(usage)}\n.fi\n.SH DESCRIPTION\n.nf\n{_escaped(rest)}\n.fi\n"
    )


def _escaped(text: str) -> str:
    """Return text of which troff reads no line as a request and no character as an escape."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in lines)
