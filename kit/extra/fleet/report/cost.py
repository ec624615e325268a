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
    rows = list(_rows(fleet)) if any(arm.whole.ratio for arm in fleet.arms) else []
    sessions = [machine.session for arm in fleet.arms for machine in arm.whole.machines]
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
    parts = []
    for verdict, word in _WORDS:
        arms = [arm for arm in fleet.arms if arm.whole.verdict == verdict]
        if arms:
            parts.append(f"{word}: {', '.join(_said(arm) for arm in arms)}")
    if not parts:
        if not any(arm.whole.machines for arm in fleet.arms):
            return f"{where}: none of them has a valid figure of {fleet.arms[0].metric}"
        return f"{where}: {fleet.arms[0].whole.reason or 'no interval'}"
    return f"{where}: {'; '.join(parts)}"


def _said(arm: FleetArm) -> str:
    name = f"{arm.arm}{units.at(arm.point)}"
    whole = arm.whole
    return name if whole.ratio is None else f"{name} ({percent_interval(whole.ratio)})"


def _rows(fleet: FleetAnswer) -> Iterator[Sequence[str]]:
    for arm in fleet.arms:
        yield _row(units.against(arm), arm.whole)
        for class_ratio in arm.classes:
            yield _row(f"└ {textwrap.shorten(class_ratio.machine_class, _CLASS, placeholder='…')}", class_ratio)


def _row(name: str, ratio: FleetRatio) -> Sequence[str]:
    if ratio.ratio is None:
        return name, str(len(ratio.machines)), units.NOTHING, units.NOTHING, units.NOTHING  # the headline says why
    return (
        name,
        str(len(ratio.machines)),
        percent_interval(ratio.ratio),
        _prediction(ratio),
        spread(ratio),
    )


def _machine_rows(fleet: FleetAnswer) -> Iterator[Sequence[str]]:
    for arm in fleet.arms:
        for machine, is_outlier in _judged(arm):
            ratio = machine.ratio
            change = percent_interval(ratio)
            word = {None: units.NOTHING, True: "yes", False: "no"}[is_outlier]
            yield units.against(arm), machine.machine, str(ratio.n), change, word


def _judged(arm: FleetArm) -> Iterator[tuple[MachineRatio, bool | None]]:
    """Yield its machines, and whether each is an outlier; None where its class has too few machines."""
    outliers = _outliers(arm)
    many = [class_ratio for class_ratio in arm.classes or (arm.whole,) if len(class_ratio.machines) >= LEAST_TO_FIT]
    tested = {machine.machine for class_ratio in many for machine in class_ratio.machines}
    for machine in arm.whole.machines:
        yield machine, machine in outliers if machine.machine in tested else None


def _outliers(arm: FleetArm) -> list[MachineRatio]:
    """Return outliers, within their class if there are several."""
    return [outlier.found for class_ratio in arm.classes or (arm.whole,) for outlier in class_ratio.outliers]


def _prediction(ratio: FleetRatio) -> str:
    if ratio.prediction is None or ratio.prediction.low is None or ratio.prediction.high is None:
        return units.NOTHING
    return percent_range(ratio.prediction.low, ratio.prediction.high)


def spread(ratio: FleetRatio) -> str:
    """Return ``2.3 % [1.1, 5.2]``: one standard deviation, with its interval."""
    if ratio.spread is None:
        return units.NOTHING
    tau, low, high = (
        100 * math.expm1(min(value, 5.0)) for value in (ratio.spread.tau, ratio.spread.low, ratio.spread.high)
    )
    return size_interval(tau, low, high)


def _few_lines(fleet: FleetAnswer) -> Iterator[str]:
    """Return lines of each machine's result, for arms that too few machines have measured."""
    few = [(arm, machine) for arm in fleet.arms if arm.whole.ratio is None for machine in arm.whole.machines]
    for arm, machine in few[:_MOST]:
        ratio = machine.ratio
        change = percent_interval(ratio)
        yield f"{machine.machine}, {units.against(arm)}: {change} by itself; kit show {machine.session}"
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
    for arm in fleet.arms:
        for class_ratio in arm.classes or (arm.whole,):
            for outlier in class_ratio.outliers:
                ratio = outlier.found.ratio
                yield (
                    f"outlier: {outlier.found.machine}, {units.against(arm)}: "
                    f"{percent_interval(ratio)} by itself, "
                    f"{units.chance(outlier.p)} among {len(class_ratio.machines)} machines; "
                    f"kit show {outlier.found.session}"
                )
            if others := class_ratio.without_outliers:
                mean_without = percent_interval(others)
                which = "it" if len(class_ratio.outliers) == 1 else f"these {len(class_ratio.outliers)}"
                yield (
                    f"the mean includes outliers; {units.against(arm)} without {which}: {mean_without} of "
                    f"{others.n} machines"
                )


def _class_lines(fleet: FleetAnswer) -> Iterator[str]:
    if len(fleet.classes) > 1:
        classes = [f"{count} of {name}" for name, count in fleet.classes.items()]
        yield f"classes: {listed(classes, _MOST, '; ')}"
    differing = [f"{units.against(arm)} ({units.chance(arm.apart or 0.0)})" for arm in fleet.arms if arm.classes_differ]
    if differing:
        advice = "read each class separately; the overall mean describes none of them"
        yield f"classes differ: {', '.join(differing)}: {advice}"


def left_lines(left_out: Sequence[LeftOut]) -> Iterator[str]:
    """Return a line for each reason, the most frequent first: ``left out: 14 machines, kit: 1 → 2: b07 (session …),
    …``."""
    reasons: dict[str, list[LeftOut]] = {}
    for omitted in left_out:
        reasons.setdefault(omitted.why, []).append(omitted)
    ordered = sorted(reasons.items(), key=lambda reason: -len(reason[1]))
    for why, group in ordered[:_MOST]:
        names = [
            f"{omitted.machine} (session {omitted.session})" if omitted.machine else omitted.session
            for omitted in group
        ]
        what = "machine" if group[0].machine else "session"
        count = f"{len(group)} {what}{'s' if len(group) > 1 else ''}"
        yield f"left out: {count}, {why}: {listed(names, _NAMED)}"
    if len(ordered) > _MOST:
        remaining = sum(len(group) for _, group in ordered[_MOST:])
        yield f"left out: {remaining} more, for {len(ordered) - _MOST} other reasons: --format json names them"


def _notes(fleet: FleetAnswer) -> Iterator[str]:
    with_spread = [ratio for arm in fleet.arms for ratio in (arm.whole, *arm.classes) if ratio.spread]
    if not with_spread:
        return
    yield (
        "prediction interval: 95 % range for the penalty of a machine not measured; spread: standard deviation of "
        "the machines' true penalties, without the noise of their rounds, with its 95 % interval"
    )
    if any(ratio.spread and ratio.spread.with_noise for ratio in with_spread):
        yield "most machines ran one round: the noise of a round is unknown, and the spread includes it"


def fleet_cost_rows(fleet: FleetAnswer) -> Iterator[dict[str, Any]]:
    """Return one flat row for each arm and class, then one for each of its machines."""
    for arm in fleet.arms:
        for class_ratio in (arm.whole, *arm.classes):
            common = {"scenario": fleet.title, "arm": arm.arm, "baseline": arm.baseline, "point": arm.point,
                      "phase": arm.phase, "metric": arm.metric, "class": class_ratio.machine_class}  # fmt: skip
            yield {
                **common, "machine": "", "session": "", "machines": len(class_ratio.machines),
                **estimate_columns("ratio", class_ratio.ratio),
                "tau": class_ratio.spread and class_ratio.spread.tau,
                "tau_low": class_ratio.spread and class_ratio.spread.low,
                "tau_high": class_ratio.spread and class_ratio.spread.high,
                "i_squared": class_ratio.spread and class_ratio.spread.share,
                "prediction_low": class_ratio.prediction and class_ratio.prediction.low,
                "prediction_high": class_ratio.prediction and class_ratio.prediction.high,
                "outlier": None, "reason": class_ratio.reason,
            }  # fmt: skip
        for machine, is_outlier in _judged(arm):
            ratio = machine.ratio
            yield {
                **common, "class": machine.machine_class, "machine": machine.machine, "session": machine.session,
                "machines": 1, "ratio": ratio.estimate, "low": ratio.low, "high": ratio.high, "rounds": ratio.n,
                "outlier": is_outlier,
            }  # fmt: skip


def render_fleet_cost_csv(fleet: FleetAnswer) -> str:
    rows = list(fleet_cost_rows(shown(fleet)))
    return render_sheet(list(dict.fromkeys(name for row in rows for name in row)), rows)


def render_fleet_cost_json(fleet: FleetAnswer) -> str:
    fleet = shown(fleet)
    document = {"schema": 2, **asdict(fleet), "arms": [_arm_document(arm) for arm in fleet.arms]}
    return json.dumps(document, indent=1) + "\n"


def _arm_document(arm: FleetArm) -> dict[str, Any]:
    whole, *classes = (
        {**asdict(ratio), **estimate_columns("ratio", ratio.ratio)} for ratio in (arm.whole, *arm.classes)
    )
    whole["verdict"] = arm.whole.verdict
    return {**asdict(arm), "whole": whole, "classes": classes, "classes_differ": arm.classes_differ}
