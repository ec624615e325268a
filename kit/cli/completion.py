"""``kit completion``: a shell's script to complete the kit's words, and the words."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import get_completion_class

from kit.core.errors import KitError

_EPILOG = """\b
Examples:
  eval "$(kit completion bash)"                              in this shell
  kit completion bash > /etc/bash_completion.d/kit           for everyone
  kit completion zsh > "${fpath[1]}/_kit"
  kit completion fish > ~/.config/fish/completions/kit.fish

Commands, options, scenarios and sessions are completed."""


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for bash, zsh or fish."""
    kind = get_completion_class(shell)
    root = context.find_root().command
    if kind is None:  # click knows these three
        raise click.UsageError(f"no completion for {shell}", context)
    made = kind(root, {}, "kit", "_KIT_COMPLETE")
    # Not source(), which asks the shell for its version: the shell may be on another machine.
    click.echo(made.source_template % made.source_vars())
    if sys.stdout.isatty():
        click.echo(f'# into your shell: eval "$(kit completion {shell})"', err=True)


def complete_scenarios(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return bundled scenarios and their variants."""
    from kit.session.plan.planning import find_scenario, scenario_names

    found: list[str] = []
    for name in scenario_names():
        with suppress(KitError):
            found += [name, *(f"{name}:{variant}" for variant, _ in find_scenario(name).variants)]
    return [name for name in found if name.startswith(begun)]


def complete_sessions(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return sessions of the store that the command line names so far."""
    from kit.cli.options import the_store

    given: dict[str, Any] = context.params
    with suppress(KitError):
        found = the_store(given.get("store_url") or "", read_only=True).names(begun)
        return [name for name in ("last", *found) if name.startswith(begun)]
    return []
