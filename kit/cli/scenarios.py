"""``kit scenarios``: the scenarios."""

from __future__ import annotations

from dataclasses import asdict

import click

from kit.cli.options import json_option, write_json
from kit.cli.scenario_kind import scenario_kinds

_EPILOG = """\b
Examples:
  kit scenarios
  kit scenarios kernel          one scenario with its parameters and phases
  kit scenarios --json"""


@click.command(epilog=_EPILOG)
@click.argument("name", required=False)
@json_option
def scenarios(name: str | None, json_file: str) -> None:
    """List scenarios, variants and parameters."""
    from kit.session.plan.planning import find_scenario, scenario_names

    found = [find_scenario(item) for item in ([name] if name else scenario_names())]
    if json_file:
        write_json(json_file, {"schema": 1, "scenarios": [asdict(item) for item in found]})
    if json_file == "-":
        return
    if not name:
        for kind in scenario_kinds():
            for scenario in kind.names():
                click.echo(f"{scenario}: {kind.summary(scenario)}")
    for item in found:
        click.echo(f"{item.label}: {item.summary}")
        for variant, summary in item.variants:
            click.echo(f"  {item.name}:{variant}: {summary}")
        if name:
            click.echo(f"  image: {item.image}")
            click.echo(f"  phases: {', '.join(step.name for step in item.phases)}")
        for param in item.params:
            default = param.default.replace("{here}", item.here)
            click.echo(f"  --param {param.name}={default}  {param.help}")
