"""Each command with its options, as Markdown, from click."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from kit.cli.lazy import LazyGroup
from kit.cli.pages.markdown import table


def commands(root: LazyGroup) -> str:
    """Return every command below the headings of ``kit --help``."""
    context = click.Context(root, info_name="kit")
    parts = []
    for heading, section in root.sections.items():
        parts.append(f"## {heading}")
        for name in section:
            parts += _described(root, context, name)
    return "\n\n".join(parts)


def _described(group: click.Group, context: click.Context, name: str) -> Iterator[str]:
    """Yield the paragraphs of a command, and of those below it."""
    command = group.get_command(context, name)
    assert command is not None
    below_context = click.Context(command, info_name=f"{context.info_name} {name}")
    yield from _command(command, below_context)
    if isinstance(command, click.Group):
        for below in command.list_commands(below_context):
            yield from _described(command, below_context, below)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"### {context.info_name}"
    yield f"`{' '.join([str(context.info_name), *command.collect_usage_pieces(context)])}`"
    yield _escaped(re.sub(r"\s+", " ", command.help or "").strip())
    options = [
        option for option in command.get_params(context) if isinstance(option, click.Option) and not option.hidden
    ]
    records = [record for option in options if (record := option.get_help_record(context))]
    if records:
        yield table(("option", ""), [(f"`{words}`", _escaped(text)) for words, text in records])
    epilog = (command.epilog or "").replace("\b", "").strip("\n")
    if epilog:
        yield f"```text\n{epilog}\n```"


def _escaped(text: str) -> str:
    return re.sub(r"([*_<>])", r"\\\1", text)
