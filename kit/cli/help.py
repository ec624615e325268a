"""``kit help``: pages of the documentation, and the help of commands."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import groupby

import click

from kit.cli.completion import complete_topics
from kit.cli.lazy import LazyGroup
from kit.cli.pages.topics import Topic, find_topic, find_topics
from kit.core.errors import UsageError

_EPILOG = """\b
Examples:
  kit help                          list the topics
  kit help arms
  kit help troubleshooting
  kit help compare                  the same as kit compare --help"""


@click.command("help", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[TOPIC | COMMAND]", shell_complete=complete_topics)
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Explain a topic or a command.

    Without TOPIC, list the topics."""
    root = context.find_root().command
    assert isinstance(root, LazyGroup)
    commands = root.list_commands(context)
    if not words:
        click.echo(_listed(find_topics()))
    elif len(words) == 1 and (topic := find_topic(words[0])):
        _show(topic, root, topic.name in commands)
    elif words[0] in commands:
        root.main([*words, "--help"], prog_name="kit", standalone_mode=False)
    else:
        near = get_close_matches(words[0], (*(topic.name for topic in find_topics()), *commands))
        fix = f"use {' or '.join(near)}; list all with kit help" if near else "list the topics with kit help"
        raise UsageError(f"unknown topic '{' '.join(words)}'", fix)


def _listed(topics: Sequence[Topic]) -> str:
    width = max(len(topic.name) for topic in topics)
    lines = ["kit help TOPIC prints a page; kit help COMMAND is kit COMMAND --help."]
    for group, found in groupby(topics, lambda topic: topic.group):
        lines += ["", f"{group}:", *(f"  {topic.name:{width}}  {topic.title}" for topic in found)]
    return "\n".join(lines)


def _show(topic: Topic, root: LazyGroup, command: bool) -> None:
    """``command``: a command has the same name."""
    from kit.cli.pages.page import read_page
    from kit.cli.pages.terminal import show_page

    more = f"\n`kit {topic.name} --help` lists the options of the command.\n" if command else ""
    show_page(read_page(topic, root) + more)
