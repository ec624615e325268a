"""``kit fleet``: its services, its state, and the answers of its machines."""

from __future__ import annotations

import click

from kit.cli.lazy import LazyGroup

#: Each subcommand, its module, and its line in --help.
COMMANDS = {
    "scheduler": ("kit.extra.fleet.serve_command:scheduler", "Run the scheduler of a fleet."),
    "worker": ("kit.extra.fleet.serve_command:worker", "Add this machine to a fleet."),
    "certificates": ("kit.extra.fleet.serve_command:certificates", "Make the certificates of a fleet."),
    "show": ("kit.extra.fleet.show_command:show", "Show what each arm costs over all machines."),
    "status": ("kit.extra.fleet.status_command:status", "Show what each machine can do, and what runs."),
}

_EPILOG = """\b
Examples:
  kit fleet certificates /etc/kit-fleet                            once; copied to every machine
  kit fleet scheduler --listen :8786 --tls /etc/kit-fleet
  sudo kit fleet worker fleet.example.org --tls /etc/kit-fleet      on each machine
  kit fleet status fleet.example.org --tls ~/kit-fleet
  kit compare kernel:short --fleet fleet.example.org --fleet-tls ~/kit-fleet --split --machines 8

A client of a worker is root on its machine. Without certificates, a fleet listens on 127.0.0.1 only."""


@click.group(cls=LazyGroup, sections={"Commands": COMMANDS}, epilog=_EPILOG)
def fleet() -> None:
    """Measure on many machines: scheduler, workers, status."""
