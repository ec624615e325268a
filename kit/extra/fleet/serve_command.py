"""``kit fleet scheduler``, ``worker`` and ``certificates``: the parts of a fleet."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from pathlib import Path

import click

from kit.cli.options import cache_from_option, tls_option
from kit.cli.streams import complain
from kit.core.errors import UsageError


def _say(text: str) -> None:
    complain(f"kit: {text}")


@click.command(
    epilog="\b\nExamples:\n  kit fleet scheduler                      for this machine alone\n"
    "  kit fleet scheduler --listen :8786 --tls /etc/kit-fleet"
)
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on.  [127.0.0.1:8786]")
@tls_option
def scheduler(listen: str | None, tls: str) -> None:
    """Run the scheduler of a fleet.

    It runs until interrupted, measures nothing, and needs no root."""
    from kit.extra.fleet.address import parse_address
    from kit.extra.fleet.service.scheduler import run_scheduler

    run_scheduler(parse_address(listen or "127.0.0.1:8786", tls), _say)


@click.command(
    epilog="\b\nExamples:\n  sudo kit fleet worker fleet.example.org --tls /etc/kit-fleet\n"
    "  sudo kit fleet worker fleet.example.org --tls /etc/kit-fleet --class 'big builders'\n"
    "  sudo kit fleet worker fleet.example.org --tls /etc/kit-fleet --cache-from /mnt/b1/cache"
)
@click.argument("scheduler_", metavar="SCHEDULER")
@click.option("--home", default="", metavar="DIR", help="Keep all files in this directory.  [KIT_HOME]")
@click.option("--class", "kind", default="", metavar="NAME",
              help="Class of identical machines.  [by CPU, cores, memory, kernel]")  # fmt: skip
@click.option("--name", default="", help="Name of this machine.  [its host name]")
@click.option("--examine", is_flag=True, help="First try what works here, as kit doctor does; remember it.")
@click.option("--shared", is_flag=True, help="Let other workers measure on this machine at the same time; flagged.")
@cache_from_option
@tls_option
def worker(scheduler_: str, home: str, kind: str, name: str, examine: bool, shared: bool, tls: str,
           cache_from: tuple[str, ...]) -> int:  # fmt: skip
    """Add this machine to a fleet.

    It runs one session at a time for the fleet of SCHEDULER, until interrupted."""
    from kit.core.paths import find_paths
    from kit.extra.fleet.address import parse_address
    from kit.extra.fleet.service.capabilities import examine_machine, known_working
    from kit.extra.fleet.service.respawn import guarded
    from kit.extra.fleet.service.share_runner import ShareRunner, describe
    from kit.extra.fleet.service.worker import run_worker
    from kit.host.remote_cache import use_peers

    use_peers(cache_from)
    if shared and not home:
        raise UsageError("--shared needs --home DIR", "give each worker of this machine a directory of its own")
    address = parse_address(scheduler_, tls)
    if home:
        os.environ["KIT_HOME"] = home = str(Path(home).absolute())
    working = examine_machine(find_paths(), home, _say) if examine else known_working(find_paths())
    member = describe(name or platform.node(), kind, shared, working)
    return guarded(lambda died: run_worker(address, ShareRunner(replace(member, died=died), home, _say), _say), _say)


@click.command(
    epilog="\b\nExamples:\n  kit fleet certificates /etc/kit-fleet\n  kit fleet certificates /etc/kit-fleet --days 90"
)
@click.argument("directory", metavar="DIR")
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="Validity in days.")
def certificates(directory: str, days: int) -> None:
    """Make the certificates of a fleet.

    DIR gets a certificate authority, unless it has one, and new keys and certificates of scheduler, workers
    and clients."""
    from kit.extra.fleet.address import CA, SIDES, certificate, key
    from kit.extra.fleet.certificates import make_certificates

    where = Path(directory).absolute()
    make_certificates(where, days)
    click.echo(f"{where}: certificates for {days} days")
    for side in SIDES:
        files = ", ".join(
            path(where, side_).name for side_, path in ((CA, certificate), (side, certificate), (side, key))
        )
        click.echo(f"  {side:10} needs {files}")
    click.echo(f"Keep {key(where, CA).name} off the machines of the fleet: its owner can make certificates.")
