"""Plans for numbers of machines and rounds, and the data that they rest on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from kit.analysis.fleet.cost import LEAST
from kit.analysis.fleet.plan import MOST_MACHINES, FleetPlan, Planning
from kit.core.quantity import shown_duration
from kit.report.fleet.cost import spread
from kit.report.format import units
from kit.report.format.sanitize import shown
from kit.report.format.table import GITHUB, render_table
from kit.report.format.wrap import screen, wrap

_HEADERS = ("", "machines", "rounds", "margin", "probability", "hours", "takes")


def render_plan(planning: Planning, tablefmt: str = "simple") -> str:
    planning = shown(planning)
    rows = list(_rows(planning))
    parts = [wrap(headline(planning), screen())]
    if rows:
        parts.append(render_table(rows, _HEADERS, tablefmt))
    parts.append("\n".join(wrap(line, screen()) for line in _lines(planning)))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_plan_markdown(planning: Planning) -> str:
    return render_plan(planning, GITHUB)


def headline(planning: Planning) -> str:
    reach = f"±{units.asked(planning.reach)}"
    best = planning.sure
    if best:
        return (
            f"{planning.title}: {best.machines} machines with {best.rounds} rounds each give the mean over machines "
            f"within {reach} with probability {units.asked(planning.assurance)}: "
            f"{best.machine_seconds / 3600:.1f} machine hours"
        )
    if not planning.variances:
        return f"{planning.title}: too few data for a plan: measure at least three machines with several rounds each"
    if not planning.even:
        return f"{planning.title}: {MOST_MACHINES:,} machines do not reach {reach}: use a larger --margin"
    return f"{planning.title}: the spread is too uncertain to plan for {reach}: measure a few more machines first"


def _rows(planning: Planning) -> Iterator[Sequence[str]]:
    named = (
        ("requested", planning.sure),
        ("at 50 %", planning.even),
        (f"{planning.machines} known", planning.here),
    )
    told: list[FleetPlan] = []
    for name, item in named:
        if item and item not in told:
            told.append(item)
            yield _row(name, item)


def _row(name: str, item: FleetPlan) -> Sequence[str]:
    return (
        name, str(item.machines), str(item.rounds), _reach(math.expm1(item.half)), _chance(item.chance),
        f"{item.machine_seconds / 3600:.1f}", shown_duration(item.seconds),
    )  # fmt: skip


def _chance(share: float) -> str:
    return units.share(share) if share < 0.995 else "> 99 %"


def _reach(share: float) -> str:
    return f"±{units.share(share, 1)}"


def _lines(planning: Planning) -> Iterator[str]:
    if planning.variances and not planning.here:
        yield f"the {planning.machines} known machines are not enough, whatever the number of rounds"
    sizes = {item.arm: item for item in planning.variances}
    for name, found in planning.found:
        if name in sizes:
            noise = units.share(math.expm1(math.sqrt(sizes[name].said_sigma2)), 1)
            yield f"{name}: spread between machines {spread(found)}, noise of a round {noise}"
        for outlier in found.outliers:
            yield (
                f"{outlier.found.machine} is an outlier in {name} and widens that spread: check it first: "
                f"kit show {outlier.found.session}"
            )
    if planning.apart:
        yield f"classes differ in {', '.join(planning.apart)}, and widen that spread: --class NAME plans for one"
    for name in planning.without:
        yield f"{name}: no plan: it needs {LEAST} machines with two rounds each"
    if planning.variances:
        yield _known_from(planning)


def _known_from(planning: Planning) -> str:
    return (
        f"based on {planning.machines} machines; set-up {shown_duration(planning.cost.once)}, "
        f"one round {shown_duration(planning.cost.round)}; the probability includes the uncertainty of spread and "
        "noise, and is that of the arm that needs the most"
    )


def render_plan_json(planning: Planning) -> str:
    planning = shown(planning)
    document = {
        "schema": 2, "scenario": planning.title, "margin": planning.reach, "probability": planning.assurance,
        "cost": asdict(planning.cost), "machines": planning.machines,
        "plans": {name: asdict(item) if item else None
                  for name, item in (("sure", planning.sure), ("even", planning.even), ("here", planning.here))},
        "arms": [{"arm": item.arm, "tau2": item.said_tau2, "sigma2": item.said_sigma2} for item in planning.variances],
        "not_planned": planning.without, "classes_differ": planning.apart,
    }  # fmt: skip
    return json.dumps(document, indent=1) + "\n"
