"""``kit clean``."""

from __future__ import annotations

import click


@click.command(epilog="\b\nExamples:\n  sudo kit clean\n  sudo kit clean --wait     after a session that still runs")
@click.option("--wait", is_flag=True, help="Wait for a running session instead of refusing.")
def clean(wait: bool) -> None:
    """Undo whatever a killed session left on this machine. `kit compare` does it first, too."""
    from kit import journal
    from kit.lock import machine_lock
    from kit.paths import find_paths

    paths = find_paths()
    with machine_lock(paths.lock, "kit clean", wait, click.echo):
        done = journal.clean(paths.state / "journal")
    for line in done:
        click.echo(line)
    if not done:
        click.echo("nothing to clean")
