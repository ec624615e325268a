"""``kit tune``."""

from __future__ import annotations

import click

from kit.cli.options import wait_option
from kit.cli.streams import complain
from kit.core.errors import UsageError
from kit.core.exit_code import BUSY, DONE, FAILED, USAGE, described

_EPILOG = f"""\b
Examples:
  kit tune                  what would change
  sudo kit tune --apply     before the sessions
  sudo kit tune --restore   after them; also after a killed kit tune

The settings live until the next reboot at most. Timers and services are
stopped, not disabled.

{described(DONE, FAILED, USAGE, BUSY)}"""


@click.command(epilog=_EPILOG)
@click.option("--apply", is_flag=True, help="Set the machine up for measuring.")
@click.option("--restore", is_flag=True, help="Restore the previous settings.")
@wait_option
def tune(apply: bool, restore: bool, wait: bool) -> None:
    """Show or tune settings of this machine."""
    from kit.core.paths import find_paths
    from kit.host.lock import machine_lock
    from kit.host.tuning import Tuning

    if apply and restore:
        raise UsageError("tune: --apply and --restore exclude each other", "give one of them")
    paths = find_paths()
    tuning = Tuning(paths.state)
    if not apply and not restore:
        changes = tuning.plan()
        for change in changes:
            click.echo(str(change))
        click.echo("set them: sudo kit tune --apply" if changes else "nothing to change")
        return
    with machine_lock(paths.lock, "kit tune", wait, click.echo):
        if apply:
            done = tuning.apply()
            for change in done:
                click.echo(str(change))
            click.echo("restore the previous settings: sudo kit tune --restore" if done else "nothing to change")
            return
        restored = tuning.restore()
    for change in restored.back:
        click.echo(str(change))
    for line in restored.left:
        complain(line)
    if restored.rebooted:
        click.echo("the machine has rebooted since, which restored its settings")
    elif not restored.back and not restored.left:
        click.echo("nothing to restore")
