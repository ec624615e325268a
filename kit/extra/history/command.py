"""``kit history``: an arm in earlier sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kit.cli.completion import complete_scenarios, complete_stored_arms
from kit.cli.options import figure_options, machine_option, output_options, store_option, the_store, write_rendered
from kit.core.errors import UsageError
from kit.extra.history.renderers import HISTORY
from kit.report.format.wrap import wrap
from kit.report.renderer import find

#: Newest sessions that are searched for one of a command.
_SEARCHED = 500

if TYPE_CHECKING:
    from kit.analysis.session.entry import Entry
    from kit.store import Store

_EPILOG = """\b
Examples:
  kit history kernel:short layer:overlay2
  kit history kernel:short layer:overlay2 --phase unpack --metric sys
  kit history 'make -j8' layer:overlay2 --ignore sources       each night builds other sources
  kit history kernel:short layer:btrfs --format json -o btrfs.json
  kit history kernel:short layer:overlay2 --machine 5f3a --last 365     one machine of many that share a store

▲ and ▼ mark change points; ? marks one that too few sessions confirm. A session with another machine,
other settings or other inputs begins a new series; its heading says what differs. Change points are found
by E-divisive with t tests that allow for dependent nights. Each machine of a fleet has its own series. The
first lines say whether a change is one machine's or a class's, and which change of facts came with it."""


@click.command(epilog=_EPILOG)
@click.argument("scenario", shell_complete=complete_scenarios)
@click.argument("arm", shell_complete=complete_stored_arms)
@figure_options
@click.option(
    "--baseline",
    default="",
    metavar="ARM",
    shell_complete=complete_stored_arms,
    help="Choose one of several baselines.",
)
@click.option("--ignore", "across", multiple=True, metavar="FACT", help="Continue a series although this differs: "
              "a fact, or sources, image, scenario, probe (repeatable).  [its night's; '' for none]")  # fmt: skip
@machine_option
@click.option(
    "--last", "most", type=click.IntRange(1), default=1000, metavar="N", help="Look at the newest N sessions.  [1000]"
)
@click.option("--confirm", type=click.IntRange(2), metavar="N",
              help="Sessions that confirm a change.  [its night's, else 3]")  # fmt: skip
@click.option("--all", "all_series", is_flag=True, help="Show all series, not only the newest.")
@output_options(HISTORY)
@store_option
def history(
    scenario: str, arm: str, phase: str, metric: str, baseline: str, across: tuple[str, ...], machine: str, most: int,
    confirm: int | None, all_series: bool, format_: str, output: str, json_file: str, store_url: str,
) -> None:  # fmt: skip
    """Show an arm's penalty over time, and when it changed."""
    from kit.extra.history.analysis.change_attribution import find_common, long_enough, tracks_by_machine
    from kit.extra.history.analysis.changepoint import ChangeHistory, confirming, find_changes
    from kit.extra.history.analysis.series import compared_alike, split
    from kit.extra.history.fleet_history import Figure, find_fleet_past
    from kit.extra.history.report.change_attribution import fleet_lines
    from kit.extra.history.report.history import Subject, render_histories_json
    from kit.extra.history.tracks import newest_request
    from kit.model.arm import spelled
    from kit.model.fact import SEVERAL

    store = the_store(store_url)
    name = spelled(arm)
    entries = store.history(scenario, name, phase, metric, machine, most)
    if not entries and (titled := _title_of_command(scenario, name, store)):
        scenario = titled
        entries = store.history(scenario, name, phase, metric, machine, most)
    if not entries:
        at = f" on a machine '{machine}…'" if machine else ""
        raise _nothing(name, f"of '{scenario}'{at} has a comparison of {name}{_of(phase, metric)}", store.titles())
    request = newest_request(store, scenario, name, machine)
    across, confirm = across or request.ignore, confirm or confirming(request)
    chosen = spelled(baseline) if baseline else entries[-1].outcome.comparison.baseline
    groups = _by_point([entry for entry in entries if entry.outcome.comparison.baseline == chosen])
    workers = {entry.worker for entry in entries if entry.worker and SEVERAL not in entry.worker}
    with_fleet = not machine and format_ == "table" and len(workers) > 1
    past = find_fleet_past(store, Figure(scenario, name, phase, metric)) if with_fleet else None
    parts, histories = [], []
    for point, listed in groups.items():
        series = split(listed, across)
        chosen_series = series if all_series else series[-1:]
        tracks = [ChangeHistory(one_series, find_changes(one_series, confirm), confirm) for one_series in chosen_series]
        comparison = listed[-1].outcome.comparison
        at = f" at {point}" if point else ""
        subject = Subject(scenario, name, chosen, f"{comparison.metric} of {comparison.phase}{at}")
        histories.append((subject, tracks))
        if past:
            watched = tracks_by_machine(compared_alike(past.entries, chosen, point), across, confirm)
            lines = fleet_lines(find_common(watched, past.drawn), long_enough(watched, confirm), past.there)
            newest = [] if all_series else [f"the newest series, {listed[-1].worker or 'of a machine of no fleet'}:"]
            parts += [*(wrap(f"{scenario}: {name}{at}: {line}") for line in lines), "", *newest]
        parts.append(find(HISTORY, format_).render(subject, tracks))
        if not all_series and len(series) > 1 and format_ == "table":
            older = sum(len(one_series.entries) for one_series in series[:-1])
            parts.append(f"{older} sessions of other machines, settings or inputs are not shown: --all")
    if format_ == "table" and len(entries) >= most:
        machines = len({entry.machine for entry in entries})
        of = f", of {machines} machines: --machine" if machines > 1 else ""
        parts.append(f"only the newest {most} sessions are shown{of}: --last")
    text = "\n".join(part.rstrip("\n") for part in parts) + "\n"
    write_rendered(
        format_, output, json_file, lambda form: render_histories_json(histories) if form == "json" else text
    )


def _title_of_command(command: str, arm: str, store: Store) -> str:
    """Return the title of the newest session of that command, which has a title of its own; '' without one."""
    from kit.model.session import DONE
    from kit.store import SessionFilter

    heads = store.list(SessionFilter(arm=arm, status=DONE), _SEARCHED)
    return next((head.title for head in heads if head.request.own_command == command), "")


def _of(phase: str, metric: str) -> str:
    return f", {metric}" + (f" of {phase}" if phase else "")


def _nothing(arm: str, what: str, titles: Sequence[str]) -> UsageError:
    """Return the error where nothing was found. Raises UsageError where the arm's name is the reason."""
    from kit.model.arm import parse_arm

    parse_arm(arm)
    return UsageError(
        f"no finished session {what}", f"use one of: {', '.join(titles[:20])}" if titles else "run kit compare smoke"
    )


def _by_point(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    by_point: dict[str, list[Entry]] = {}
    for entry in entries:
        by_point.setdefault(entry.outcome.comparison.point, []).append(entry)
    return by_point
