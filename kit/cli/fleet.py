"""``kit fleet``: what it consists of, what it does, and what its machines say together."""

from __future__ import annotations

import click

from kit.cli.lazy import LazyGroup

#: Each subcommand, where it is, and its line in --help.
COMMANDS = {
    "scheduler": ("kit.cli.fleet_serve:scheduler", "Run the fleet's scheduler until it is interrupted."),
    "worker": ("kit.cli.fleet_serve:worker", "Give this machine to a fleet until it is interrupted."),
    "certificates": ("kit.cli.fleet_serve:certificates", "Make a certificate authority, and what each side shows."),
    "show": ("kit.cli.farm:show", "What each arm costs over machines, by what is stored."),
    "plan": ("kit.cli.farm:plan", "How many machines and rounds a question needs."),
    "status": ("kit.cli.fleet_status:status", "What each machine can do, what runs where, how long still."),
}

_EPILOG = """\b
Examples:
  kit fleet certificates /etc/kit-fleet                            once; copied to every machine
  kit fleet scheduler --listen :8786 --tls /etc/kit-fleet
  sudo kit fleet worker farm.example.org --tls /etc/kit-fleet      on each machine
  kit fleet status farm.example.org --tls ~/kit-fleet
  kit compare kernel:short --fleet farm.example.org --fleet-tls ~/kit-fleet --split --machines 8

Whoever can speak to a worker is root on its machine: without certificates all of it stays on 127.0.0.1. docs/fleet.md
has more."""


@click.group(cls=LazyGroup, lazy=COMMANDS, epilog=_EPILOG)
def fleet() -> None:
    """Measure on many machines: a scheduler, a worker on each machine, and kit compare --fleet."""
