"""``kit clean``."""

from __future__ import annotations

import click

from kit.cli.options import wait_option
from kit.cli.streams import complain


@click.command(epilog="\b\nExamples:\n  sudo kit clean\n  sudo kit clean --wait     after a session that still runs")
@wait_option
def clean(wait: bool) -> None:
    """Undo what a killed session left, and record its end.

    kit compare does so at its start."""
    from kit.core.paths import find_paths
    from kit.host.lock import machine_lock
    from kit.host.settings_files import configured_store
    from kit.session.setup.cleanups import clean_machine
    from kit.store import open_store
    from kit.store.outbox.outbox import outbox_directory

    paths = find_paths()
    recorded: list[str] = []
    with machine_lock(paths.lock, "kit clean", wait, click.echo):
        cleaned = clean_machine(paths)
    if any(outbox_directory(paths.data).glob("*.jsonl")):  # a killed session's; what opens its store records its end
        open_store(configured_store(), paths.store, tell=recorded.append, patient=True).close()
    for line in (*cleaned.undone, *recorded):
        click.echo(line)
    for line in cleaned.left:
        complain(line)
    if not cleaned.undone and not recorded:
        click.echo("nothing to clean")
