"""``kit fleet status``."""

from __future__ import annotations

import json

import click

from kit.cli.options import json_flag, tls_option


@click.command(
    epilog="\b\nExamples:\n  kit fleet status 127.0.0.1\n  kit fleet status fleet.example.org --tls ~/kit-fleet --json"
)
@click.argument("scheduler", metavar="SCHEDULER", envvar="KIT_FLEET")
@tls_option
@json_flag
def status(scheduler: str, tls: str, as_json: bool) -> None:
    """Show what each machine can do, and what runs."""
    from kit.core.codec import encode
    from kit.fleet.address import parse_address
    from kit.fleet.client.client import fleet_at
    from kit.report.fleet.machines import render_members

    with fleet_at(parse_address(scheduler, tls)) as fleet:
        found = fleet.status()
    if as_json:
        click.echo(json.dumps([{**encode(item.member), "runs": encode(item.runs)} for item in found], indent=1))
    else:
        click.echo(render_members(found), nl=False)
