"""What an arm costs on a fleet: the answer, a line for each arm and class, outliers, machines left out."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kit.analysis.stats.estimate import LESS, MORE, NOT_SIGNIFICANT
from kit.core.listing import listed
from kit.extra.fleet.analysis.answer import FleetAnswer, FleetArm, LeftOut
from kit.extra.fleet.analysis.cost import LEAST_TO_FIT, FleetRatio, MachineRatio
from kit.report.data.structured import estimate_columns
from kit.report.format import units
from kit.report.format.interval import percent_interval, percent_range, size_interval
from kit.report.format.sanitize import shown
from kit.report.format.table import GITHUB, render_sheet, render_table
from kit.report.format.wrap import screen, wrap

_CLASS = 40
_HEADERS = ("arm / baseline", "machines", "mean, 95 %", "prediction interval", "spread")
_MACHINE_HEADERS = ("arm / baseline", "machine", "rounds", "change, 95 %", "outlier")
_WORDS = ((MORE, "slower"), (LESS, "faster"), (NOT_SIGNIFICANT, "not significant"))
#: Classes, machines and sessions that are listed before the rest is counted.
_MOST = 6
#: Most items listed for one reason of exclusion.
_NAMED = 3


@dataclass(frozen=True)
class FleetView:
    """The answer in a sentence, the table, and its caveats. ``machines``: each machine's own result; ``sessions``: its
    session."""

    headline: str
    rows: Sequence[Sequence[str]]
    lines: Sequence[str]
    machines: Sequence[Sequence[str]]
    sessions: Sequence[str]
    headers: Sequence[str] = _HEADERS
    machine_headers: Sequence[str] = _MACHINE_HEADERS


def view_fleet_cost(fleet: FleetAnswer) -> FleetView:
    fleet = shown(fleet)
    lines = [
        *_few_lines(fleet),
        *_together_lines(fleet),
        *_fit_lines(fleet),
        *_class_lines(fleet),
        *left_lines(fleet.left_out),
        *_notes(fleet),
    ]
    rows = list(_rows(fleet)) if any(item.whole.ratio for item in fleet.arms) else []
    sessions = [machine.session for item in fleet.arms for machine in item.whole.machines]
    return FleetView(headline(fleet), rows, lines, list(_machine_rows(fleet)), sessions)


def render_fleet_cost(fleet: FleetAnswer, tablefmt: str = "simple") -> str:
    view = view_fleet_cost(fleet)
    parts = [view.headline if tablefmt == GITHUB else wrap(view.headline, screen())]
    if view.rows:
        parts.append(render_table(view.rows, view.headers, tablefmt))
    if tablefmt == GITHUB:
        parts.append("\n".join(f"- {line}" for line in view.lines))
    else:
        parts.append("\n".join(wrap(line, screen()) for line in view.lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_fleet_cost_markdown(fleet: FleetAnswer) -> str:
    return render_fleet_cost(fleet, GITHUB)


def headline(fleet: FleetAnswer) -> str:
    """Return ``kernel:short on 12 machines of 2 classes: slower: layer:overlay2 (+4.1 %); …``"""
    if not fleet.arms:
        return f"{fleet.title}: no machine has compared an arm"
    several = f" of {len(fleet.classes)} classes" if len(fleet.classes) > 1 else ""
    where = f"{fleet.title} on {fleet.machines} machine{'s' if fleet.machines != 1 else ''}{several}"
    said = []
    for verdict, word in _WORDS:
        mine = [item for item in fleet.arms if item.whole.verdict == verdict]
        if mine:
            said.append(f"{word}: {', '.join(_said(item) for item in mine)}")
    if not said:
        if not any(item.whole.machines for item in fleet.arms):
            return f"{where}: none of them has a valid figure of {fleet.arms[0].metric}"
        return f"{where}: {fleet.arms[0].whole.reason or 'no interval'}"
    return f"{where}: {'; '.join(said)}"


def _said(item: FleetArm) -> str:
    name = f"{item.arm}{units.at(item.point)}"
    whole = item.whole
    return name if whole.ratio is None else f"{name} ({percent_interval(whole.ratio)})"


def _rows(fleet: FleetAnswer) -> Iterator[Sequence[str]]:
    for item in fleet.arms:
        yield _row(units.against(item), item.whole)
        for one in item.classes:
            yield _row(f"└ {textwrap.shorten(one.machine_class, _CLASS, placeholder='…')}", one)


def _row(name: str, item: FleetRatio) -> Sequence[str]:
    if item.ratio is None:
        return name, str(len(item.machines)), units.NOTHING, units.NOTHING, units.NOTHING  # the headline says why
    return (
        name,
        str(len(item.machines)),
        percent_interval(item.ratio),
        _prediction(item),
        spread(item),
    )


def _machine_rows(fleet: FleetAnswer) -> Iterator[Sequence[str]]:
    for item in fleet.arms:
        for machine, is_outlier in _judged(item):
            found = machine.ratio
            change = percent_interval(found)
            said = {None: units.NOTHING, True: "yes", False: "no"}[is_outlier]
            yield units.against(item), machine.machine, str(found.n), change, said


def _judged(item: FleetArm) -> Iterator[tuple[MachineRatio, bool | None]]:
    """Yield its machines, and whether each is an outlier; None where its class has too few machines."""
    outliers = _outliers(item)
    many = [one for one in item.classes or (item.whole,) if len(one.machines) >= LEAST_TO_FIT]
    told = {machine.machine for one in many for machine in one.machines}
    for machine in item.whole.machines:
        yield machine, machine in outliers if machine.machine in told else None


def _outliers(item: FleetArm) -> list[MachineRatio]:
    """Return outliers, within their class if there are several."""
    return [outlier.found for one in item.classes or (item.whole,) for outlier in one.outliers]


def _prediction(item: FleetRatio) -> str:
    if item.prediction is None or item.prediction.low is None or item.prediction.high is None:
        return units.NOTHING
    return percent_range(item.prediction.low, item.prediction.high)


def spread(item: FleetRatio) -> str:
    """Return ``2.3 % [1.1, 5.2]``: one standard deviation, with its interval."""
    if item.spread is None:
        return units.NOTHING
    tau, low, high = (
        100 * math.expm1(min(value, 5.0)) for value in (item.spread.tau, item.spread.low, item.spread.high)
    )
    return size_interval(tau, low, high)


def _few_lines(fleet: FleetAnswer) -> Iterator[str]:
    """Return lines of each machine's result, for arms that too few machines have measured."""
    few = [(item, machine) for item in fleet.arms if item.whole.ratio is None for machine in item.whole.machines]
    for item, machine in few[:_MOST]:
        found = machine.ratio
        change = percent_interval(found)
        yield f"{machine.machine}, {units.against(item)}: {change} by itself; kit show {machine.session}"
    if len(few) > _MOST:
        yield f"{len(few) - _MOST} more figures of single machines: --format csv"


def _together_lines(fleet: FleetAnswer) -> Iterator[str]:
    if fleet.shared_machine:
        yield (
            f"SHARED MACHINE: {listed(fleet.shared_machine, _MOST)}: workers of one machine disturb each other; "
            "it counts once"
        )


def _fit_lines(fleet: FleetAnswer) -> Iterator[str]:
    """Return lines on outliers, within their class if there are several."""
    for item in fleet.arms:
        for one in item.classes or (item.whole,):
            for outlier in one.outliers:
                found = outlier.found.ratio
                yield (
                    f"outlier: {outlier.found.machine}, {units.against(item)}: "
                    f"{percent_interval(found)} by itself, "
                    f"{units.chance(outlier.p)} among {len(one.machines)} machines; kit show {outlier.found.session}"
                )
            if others := one.without_outliers:
                rest = percent_interval(others)
                which = "it" if len(one.outliers) == 1 else f"these {len(one.outliers)}"
                yield (
                    f"the mean includes outliers; {units.against(item)} without {which}: {rest} of {others.n} machines"
                )


def _class_lines(fleet: FleetAnswer) -> Iterator[str]:
    if len(fleet.classes) > 1:
        classes = [f"{count} of {name}" for name, count in fleet.classes.items()]
        yield f"classes: {listed(classes, _MOST, '; ')}"
    differing = [
        f"{units.against(item)} ({units.chance(item.apart or 0.0)})" for item in fleet.arms if item.classes_differ
    ]
    if differing:
        advice = "read each class separately; the overall mean describes none of them"
        yield f"classes differ: {', '.join(differing)}: {advice}"


def left_lines(left_out: Sequence[LeftOut]) -> Iterator[str]:
    """Return a line for each reason, the most frequent first: ``left out: 14 machines, kit: 1 → 2: b07 (session …),
    …``."""
    reasons: dict[str, list[LeftOut]] = {}
    for item in left_out:
        reasons.setdefault(item.why, []).append(item)
    ordered = sorted(reasons.items(), key=lambda reason: -len(reason[1]))
    for why, found in ordered[:_MOST]:
        names = [f"{item.machine} (session {item.session})" if item.machine else item.session for item in found]
        what = "machine" if found[0].machine else "session"
        count = f"{len(found)} {what}{'s' if len(found) > 1 else ''}"
        yield f"left out: {count}, {why}: {listed(names, _NAMED)}"
    if len(ordered) > _MOST:
        rest = sum(len(found) for _, found in ordered[_MOST:])
        yield f"left out: {rest} more, for {len(ordered) - _MOST} other reasons: --format json names them"


def _notes(fleet: FleetAnswer) -> Iterator[str]:
    known = [one for item in fleet.arms for one in (item.whole, *item.classes) if one.spread]
    if not known:
        return
    yield (
        "prediction interval: 95 % range for the penalty of a machine not measured; spread: standard deviation of "
        "the machines' true penalties, without the noise of their rounds, with its 95 % interval"
    )
    if any(one.spread and one.spread.with_noise for one in known):
        yield "most machines ran one round: the noise of a round is unknown, and the spread includes it"


def fleet_cost_rows(fleet: FleetAnswer) -> Iterator[dict[str, Any]]:
    """Return one flat row for each arm and class, then one for each of its machines."""
    for item in fleet.arms:
        for one in (item.whole, *item.classes):
            common = {"scenario": fleet.title, "arm": item.arm, "baseline": item.baseline, "point": item.point,
                      "phase": item.phase, "metric": item.metric, "class": one.machine_class}  # fmt: skip
            yield {
                **common, "machine": "", "session": "", "machines": len(one.machines),
                **estimate_columns("ratio", one.ratio),
                "tau": one.spread and one.spread.tau, "tau_low": one.spread and one.spread.low,
                "tau_high": one.spread and one.spread.high, "i_squared": one.spread and one.spread.share,
                "prediction_low": one.prediction and one.prediction.low,
                "prediction_high": one.prediction and one.prediction.high,
                "outlier": None, "reason": one.reason,
            }  # fmt: skip
        for machine, is_outlier in _judged(item):
            found = machine.ratio
            yield {
                **common, "class": machine.machine_class, "machine": machine.machine, "session": machine.session,
                "machines": 1, "ratio": found.estimate, "low": found.low, "high": found.high, "rounds": found.n,
                "outlier": is_outlier,
            }  # fmt: skip


def render_fleet_cost_csv(fleet: FleetAnswer) -> str:
    rows = list(fleet_cost_rows(shown(fleet)))
    return render_sheet(list(dict.fromkeys(name for row in rows for name in row)), rows)


def render_fleet_cost_json(fleet: FleetAnswer) -> str:
    fleet = shown(fleet)
    document = {"schema": 2, **asdict(fleet), "arms": [_arm_document(item) for item in fleet.arms]}
    return json.dumps(document, indent=1) + "\n"


def _arm_document(item: FleetArm) -> dict[str, Any]:
    whole, *classes = ({**asdict(one), **estimate_columns("ratio", one.ratio)} for one in (item.whole, *item.classes))
    whole["verdict"] = item.whole.verdict
    return {**asdict(item), "whole": whole, "classes": classes, "classes_differ": item.classes_differ}
