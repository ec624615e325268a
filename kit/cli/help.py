"""``kit help``: what an arm can be, and the help of commands."""

from __future__ import annotations

from difflib import get_close_matches

import click

from kit.cli.completion import complete_help
from kit.cli.lazy import LazyGroup
from kit.core.errors import UsageError

_EPILOG = """\b
Examples:
  kit help arms                     placements, drivers, filesystems and options
  kit help compare                  the same as kit compare --help"""


@click.command("help", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[arms | COMMAND]", shell_complete=complete_help)
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Explain arms or a command."""
    root = context.find_root().command
    assert isinstance(root, LazyGroup)
    commands = root.list_commands(context)
    if words == ("arms",):
        from kit.cli.pages.arms import arms

        click.echo(arms())
    elif not words or words[0] in commands:
        root.main([*words, "--help"], prog_name="kit", standalone_mode=False)
    else:
        near = get_close_matches(words[0], ("arms", *commands))
        fix = f"use {' or '.join(near)}" if near else "list the commands with kit --help"
        raise UsageError(f"no help of '{' '.join(words)}'", fix)
