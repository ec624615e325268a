"""``kit fleet scheduler``, ``worker`` and ``certificates``: what a fleet consists of."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from pathlib import Path

import click

from kit.cli.options import cache_from_option, tls_option
from kit.core.errors import UsageError


def _say(text: str) -> None:
    click.echo(f"kit: {text}", err=True)


@click.command(
    epilog="\b\nExamples:\n  kit fleet scheduler                      for this machine alone\n"
    "  kit fleet scheduler --listen :8786 --tls /etc/kit-fleet"
)
@click.option("--listen", metavar="HOST:PORT", help="[default: 127.0.0.1:8786]")
@tls_option
def scheduler(listen: str | None, tls: str) -> None:
    """Run the fleet's scheduler until it is interrupted. It measures nothing, and needs no root."""
    from kit.fleet.address import parse_address
    from kit.fleet.scheduler import run_scheduler

    run_scheduler(parse_address(listen or "127.0.0.1:8786", tls), _say)


@click.command(
    epilog="\b\nExamples:\n  sudo kit fleet worker farm.example.org --tls /etc/kit-fleet\n"
    "  sudo kit fleet worker farm.example.org --tls /etc/kit-fleet --class 'big builders'\n"
    "  sudo kit fleet worker farm.example.org --tls /etc/kit-fleet --cache-from /mnt/b1/cache"
)
@click.argument("scheduler_", metavar="SCHEDULER")
@click.option("--home", default="", metavar="DIR", help="Keep everything there.  [default: KIT_HOME, the user's own]")
@click.option("--class", "kind", default="", metavar="NAME",
              help="Machines of one class are alike.  [default: by CPU, cores, memory, kernel]")  # fmt: skip
@click.option("--name", default="", help="What the machine is called.  [default: its host name]")
@click.option(
    "--examine", is_flag=True, help="Try first what works here, as kit doctor does, and keep it for later starts."
)
@click.option("--together", is_flag=True, help="Other workers may measure on this machine meanwhile; flagged.")
@cache_from_option
@tls_option
def worker(scheduler_: str, home: str, kind: str, name: str, examine: bool, together: bool, tls: str,
           cache_from: tuple[str, ...]) -> int:  # fmt: skip
    """Give this machine to the fleet of SCHEDULER until it is interrupted, one session at a time."""
    from kit.core.paths import find_paths
    from kit.fleet.address import parse_address
    from kit.fleet.carrier import Carrier, describe
    from kit.fleet.examined import examine_machine, known_working
    from kit.fleet.guard import guarded
    from kit.fleet.worker import run_worker
    from kit.host.peers import use_peers

    use_peers(cache_from)
    if together and not home:
        raise UsageError("--together needs --home DIR", "each worker of a machine has one of its own")
    address = parse_address(scheduler_, tls)
    if home:
        os.environ["KIT_HOME"] = home = str(Path(home).absolute())
    working = examine_machine(find_paths(), home, _say) if examine else known_working(find_paths())
    member = describe(name or platform.node(), kind, together, working)
    return guarded(lambda died: run_worker(address, Carrier(replace(member, died=died), home), _say), _say)


@click.command(
    epilog="\b\nExamples:\n  kit fleet certificates /etc/kit-fleet\n  kit fleet certificates /etc/kit-fleet --days 90"
)
@click.argument("directory", metavar="DIR")
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="How long they are valid.")
def certificates(directory: str, days: int) -> None:
    """Make a certificate authority in DIR, and key and certificate of scheduler, workers and clients.

    Where DIR has an authority it stays, and the others are made anew."""
    from kit.fleet.address import CA, SIDES, certificate, key
    from kit.fleet.certificates import make_certificates

    where = Path(directory).absolute()
    make_certificates(where, days)
    click.echo(f"{where}: certificates for {days} days")
    for side in SIDES:
        files = ", ".join(
            path(where, side_).name for side_, path in ((CA, certificate), (side, certificate), (side, key))
        )
        click.echo(f"  {side:10} needs {files}")
    click.echo(f"Keep {key(where, CA).name} on no machine of the fleet: who has it can make himself one.")
