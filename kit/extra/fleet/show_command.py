"""``kit fleet show``: the answer for a fleet from stored sessions."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from kit.cli.completion import complete_scenarios
from kit.cli.options import figure_options, output_options, store_option, the_store, write_rendered
from kit.extra.fleet.renderers import FLEET
from kit.report.renderer import find

_SHOW = """\b
Examples:
  kit fleet show kernel:short
  kit fleet show kernel:short --class builder-large --since 2026-11-01
  kit fleet show kernel:short --metric cpu_total --format csv -o fleet.csv
  kit fleet show 20261101-0312                                 a session that machines shared

The newest session of each machine counts, if its kit, settings and inputs are those of most machines;
the others are listed. The mean is over machines: each counts once, whatever its number of rounds."""


@click.command(epilog=_SHOW)
@click.argument("scenario", default="", shell_complete=complete_scenarios)
@click.option("--class", "machine_class", default="", metavar="NAME", help="Only machines of this class.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Only sessions from this day on, UTC.")
@figure_options
@output_options(FLEET)
@store_option
def show(
    scenario: str, machine_class: str, since: datetime | None, phase: str, metric: str, format_: str, output: str,
    json_file: str, store_url: str,
) -> None:  # fmt: skip
    """Show what each arm costs over all machines.

    Mean, spread, prediction interval and outliers. SCENARIO defaults to that of the newest session."""
    from kit.extra.fleet.stored import FleetQuestion, answer_fleet

    begin = since.replace(tzinfo=UTC).timestamp() if since else None
    fleet = answer_fleet(the_store(store_url), FleetQuestion(scenario, machine_class, begin, phase, metric))
    write_rendered(format_, output, json_file, lambda name: find(FLEET, name).render(fleet))
