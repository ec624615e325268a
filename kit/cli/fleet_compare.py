"""``kit compare … --fleet SCHEDULER``: the same on machines of a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kit.cli.options import Command, fleet_tls_option
from kit.core.errors import UsageError

if TYPE_CHECKING:
    from kit.fleet.run import FleetContext
    from kit.fleet.watcher import Watcher
    from kit.store import Store

_OPTIONS = (
    click.option("--fleet", metavar="SCHEDULER", default="", help="Run on machines of this fleet; see kit fleet."),
    fleet_tls_option,
    click.option("--machines", type=click.IntRange(1), help="So many of them.  [default: all that fit]"),
    click.option("--class", "kind", default="", metavar="NAME", help="Only machines of this class."),
    click.option("--where", default="", metavar="'cores>=32,…'", help="Only machines of which that holds."),
)  # fmt: skip


_SPLIT = click.option(
    "--split/--each", "split", default=None,
    help="Like machines share the rounds of one session, or each runs a session.  [default: --each]",
)  # fmt: skip


def fleet_machines_options(command: Command) -> Command:
    """Which machines of which fleet."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def fleet_options(command: Command) -> Command:
    """All that goes with --fleet."""
    return fleet_machines_options(_SPLIT(command))


def check_fleet_options(given: Mapping[str, Any]) -> None:
    """Raises UsageError for what means nothing without --fleet, or with it."""
    if given["fleet"]:
        for name in ("device", "thin_device", "directory", "docker", "rootfs", "cache_from"):
            if given.get(name):
                raise UsageError(
                    f"--{name.replace('_', '-').replace('directory', 'dir')} is of one machine, not of a fleet",
                    "leave it out, or give it there: kit compare, kit fleet worker",
                )
        return
    for name, option in (("machines", "--machines"), ("kind", "--class"), ("where", "--where"), ("split", "--split")):
        if given.get(name) not in (None, ""):
            raise UsageError(f"{option} goes with --fleet SCHEDULER", "kit fleet --help")


def fleet_context(given: Mapping[str, Any], store: Store, watcher: Watcher) -> FleetContext:
    """Raises UsageError."""
    from kit.core.paths import find_paths
    from kit.fleet.address import parse_address
    from kit.fleet.run import FleetContext
    from kit.model.member import Selection, parse_where

    selection = Selection(
        given["machines"] or 0, given["kind"], parse_where(given["where"]), bool(given.get("split", True))
    )
    return FleetContext(parse_address(given["fleet"], given["fleet_tls"]), selection, find_paths(), store, watcher)
