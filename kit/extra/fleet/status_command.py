"""``kit fleet status``."""

from __future__ import annotations

import click

from kit.cli.options import json_option, tls_option, write_json


@click.command(
    epilog="\b\nExamples:\n  kit fleet status 127.0.0.1\n  kit fleet status fleet.example.org --tls ~/kit-fleet --json"
)
@click.argument("scheduler", metavar="SCHEDULER", envvar="KIT_FLEET")
@tls_option
@json_option
def status(scheduler: str, tls: str, json_file: str) -> None:
    """Show what each machine can do, and what runs."""
    from kit.core.codec import encode
    from kit.extra.fleet.address import parse_address
    from kit.extra.fleet.client.client import fleet_at
    from kit.extra.fleet.report.machines import render_members

    with fleet_at(parse_address(scheduler, tls)) as fleet:
        machines = fleet.status()
    if json_file:
        listed = [{**encode(machine.member), "runs": encode(machine.runs)} for machine in machines]
        write_json(json_file, {"schema": 1, "machines": listed})
    if json_file != "-":
        click.echo(render_members(machines), nl=False)
