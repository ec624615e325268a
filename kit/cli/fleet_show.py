"""``kit fleet show`` and ``kit fleet plan``: the answer for a fleet from stored sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kit.cli.completion import complete_scenarios, complete_stored_arms
from kit.cli.options import Command, figure_options, output_options, store_option, the_store, write_rendered
from kit.core.errors import UsageError
from kit.core.quantity import percentage
from kit.report.renderer import FLEET, PLAN, find

if TYPE_CHECKING:
    from kit.analysis.fleet.answer import FleetAnswer
    from kit.store import Store

_SHOW = """\b
Examples:
  kit fleet show kernel:short
  kit fleet show kernel:short --class builder-large --since 2026-11-01
  kit fleet show kernel:short --metric cpu_total --format csv -o fleet.csv
  kit fleet show 20261101-0312                                 a session that machines shared

The newest session of each machine counts, if its kit, settings and inputs are those of most machines;
the others are listed. The mean is over machines: each counts once, whatever its number of rounds."""

_PLAN = """\b
Examples:
  kit fleet plan kernel:short --margin 1%
  kit fleet plan kernel:short --arm layer:overlay2 --margin 0.5% --probability 90%

A plan needs a session of each of three machines. Fewer known machines make a plan more cautious."""

#: Number of sessions whose durations are read.
_TIMED = 8


def _chosen(command: Command) -> Command:
    """Add options that select sessions."""
    for option in reversed((
        click.argument("scenario", default="", shell_complete=complete_scenarios),
        click.option("--class", "machine_class", default="", metavar="NAME", help="Only machines of this class."),
        click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Only sessions from this day on, UTC."),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command(epilog=_SHOW)
@_chosen
@figure_options
@output_options(FLEET)
@store_option
def show(
    scenario: str, machine_class: str, since: datetime | None, phase: str, metric: str, format_: str, output: str,
    json_file: str, store_url: str,
) -> None:  # fmt: skip
    """Show what each arm costs over all machines.

    Mean, spread, prediction interval and outliers. SCENARIO defaults to that of the newest session."""
    fleet = _answer(the_store(store_url), scenario, machine_class, since, phase, metric)
    write_rendered(format_, output, json_file, lambda name: find(FLEET, name).render(fleet))


@click.command(epilog=_PLAN)
@_chosen
@click.option("--margin", metavar="P%", default="1%", help="Half width that the interval of the mean may have.  [1%]")
@click.option("--probability", metavar="P%", default="80%", help="Probability of reaching it.  [80%]")
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="ARM",
    shell_complete=complete_stored_arms,
    help="Plan for this arm (repeatable).  [all]",
)
@output_options(PLAN)
@store_option
def plan(
    scenario: str, machine_class: str, since: datetime | None, margin: str, probability: str, arms: tuple[str, ...],
    format_: str, output: str, json_file: str, store_url: str,
) -> None:  # fmt: skip
    """Plan how many machines and rounds a question needs."""
    from kit.analysis.fleet.plan import cost_of, plan_fleet
    from kit.report.format.units import against

    store = the_store(store_url)
    fleet = _answer(store, scenario, machine_class, since, "", "real")
    listed = [(against(item), item) for item in fleet.arms if not arms or item.arm in arms]
    if not listed:
        raise UsageError(f"no machine has compared {', '.join(arms)}", "list the arms with kit fleet show")
    names = dict.fromkeys(machine.session for _, item in listed for machine in item.whole.machines)
    cost = cost_of([store.get(name) for name in list(names)[:_TIMED]])
    if cost is None:
        raise UsageError("the duration of a round is unknown", "run a session of two rounds: kit compare")
    apart = [name for name, item in listed if item.classes_differ]
    found = plan_fleet(fleet.title, [(name, item.whole) for name, item in listed], cost, percentage(margin, "--margin"),
                      percentage(probability, "--probability"), apart)  # fmt: skip
    write_rendered(format_, output, json_file, lambda name: find(PLAN, name).render(found))


def _answer(
    store: Store, scenario: str, machine_class: str, since: datetime | None, phase: str, metric: str
) -> FleetAnswer:
    """Return the answer. Raises UsageError."""
    from kit.store.fleet_cost import FleetQuestion, answer_fleet

    begin = since.replace(tzinfo=UTC).timestamp() if since else None
    return answer_fleet(store, FleetQuestion(scenario, machine_class, begin, phase, metric))
