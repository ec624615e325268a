"""``kit clean``."""

from __future__ import annotations

import click

from kit.cli.options import wait_option


@click.command(epilog="\b\nExamples:\n  sudo kit clean\n  sudo kit clean --wait     after a session that still runs")
@wait_option
def clean(wait: bool) -> None:
    """Undo what a killed session left on this machine.

    kit compare does so at its start."""
    from kit.core.paths import find_paths
    from kit.host.lock import machine_lock
    from kit.session.setup.cleanups import clean_machine

    paths = find_paths()
    with machine_lock(paths.lock, "kit clean", wait, click.echo):
        cleaned = clean_machine(paths)
    for line in cleaned.undone:
        click.echo(line)
    for line in cleaned.left:
        click.echo(line, err=True)
    if not cleaned.undone:
        click.echo("nothing to clean")
