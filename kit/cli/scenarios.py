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

    listed = [find_scenario(scenario_name) for scenario_name in ([name] if name else scenario_names())]
    if json_file:
        write_json(json_file, {"schema": 1, "scenarios": [asdict(scenario) for scenario in listed]})
    if json_file == "-":
        return
    if not name:
        for kind in scenario_kinds():
            for title in kind.names():
                click.echo(f"{title}: {kind.summary(title)}")
    for scenario in listed:
        click.echo(f"{scenario.label}: {scenario.summary}")
        for variant, summary in scenario.variants:
            click.echo(f"  {scenario.name}:{variant}: {summary}")
        if name:
            click.echo(f"  image: {scenario.image}")
            click.echo(f"  phases: {', '.join(step.name for step in scenario.phases)}")
        for param in scenario.params:
            default = param.default.replace("{here}", scenario.here)
            click.echo(f"  --param {param.name}={default}  {param.help}")
