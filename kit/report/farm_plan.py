"""How many machines and rounds: what to choose from, and what that is known from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from tabulate import tabulate

from kit.analysis.farm import LEAST
from kit.analysis.farm_plan import MOST_MACHINES, FarmPlan, Planning
from kit.core.quantity import shown_duration
from kit.report import units
from kit.report.farm import spread
from kit.report.shown import shown
from kit.report.wrap import screen, wrap

_HEADERS = ("", "machines", "rounds", "typically", "chance", "hours", "done after")


def render_plan(planning: Planning, tablefmt: str = "simple") -> str:
    planning = shown(planning)
    rows = list(_rows(planning))
    parts = [wrap(headline(planning), screen())]
    if rows:
        parts.append(tabulate(rows, _HEADERS, tablefmt=tablefmt, disable_numparse=True))
    parts.append("\n".join(wrap(line, screen()) for line in _lines(planning)))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_plan_markdown(planning: Planning) -> str:
    return render_plan(planning, "github")


def headline(planning: Planning) -> str:
    reach = f"±{units.asked(planning.reach)}"
    best = planning.sure
    if best:
        return (
            f"{planning.title}: {best.machines} machines of {best.rounds} rounds each tell the mean over machines to "
            f"{reach}, with a chance of {units.asked(planning.assurance)}: "
            f"{best.machine_seconds / 3600:.1f} machine hours"
        )
    if not planning.variances:
        return f"{planning.title}: nothing can be planned: three machines with several rounds each are the least"
    if not planning.even:
        return f"{planning.title}: not even {MOST_MACHINES:,} machines tell the mean to {reach}: ask for less, --margin"
    return f"{planning.title}: too little is known of how machines differ to promise {reach}: measure a few more first"


def _rows(planning: Planning) -> Iterator[Sequence[str]]:
    named = (
        ("as asked", planning.sure),
        ("even chance", planning.even),
        (f"the {planning.machines} known", planning.here),
    )
    told: list[FarmPlan] = []
    for name, item in named:
        if item and item not in told:
            told.append(item)
            yield _row(name, item)


def _row(name: str, item: FarmPlan) -> Sequence[str]:
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
        yield f"the {planning.machines} machines that are known do not do, however many rounds they make"
    sizes = {item.arm: item for item in planning.variances}
    for name, found in planning.found:
        if name in sizes:
            noise = units.share(math.expm1(math.sqrt(sizes[name].said_sigma2)), 1)
            yield f"{name}: spread between machines {spread(found)}, noise of a round {noise}"
        for misfit in found.misfits:
            yield (
                f"{misfit.found.machine} is an outlier in {name}, and widens that spread: look at it before paying for "
                f"its like; kit show {misfit.found.session}"
            )
    if planning.apart:
        yield f"classes differ in {', '.join(planning.apart)}, and widen that spread: --class NAME plans for one"
    for name in planning.without:
        yield f"{name}: not planned for: {LEAST} machines of two rounds are the least"
    if planning.variances:
        yield _known_from(planning)


def _known_from(planning: Planning) -> str:
    return (
        f"known from {planning.machines} machines; before the first round {shown_duration(planning.cost.once)}, "
        f"a round {shown_duration(planning.cost.round)}; the chance allows for what is not known of spread and noise, "
        "and is that of the arm that needs most"
    )


def render_plan_json(planning: Planning) -> str:
    planning = shown(planning)
    document = {
        "schema": 1, "scenario": planning.title, "reach": planning.reach, "assurance": planning.assurance,
        "cost": asdict(planning.cost), "machines": planning.machines,
        "plans": {name: asdict(item) if item else None
                  for name, item in (("sure", planning.sure), ("even", planning.even), ("here", planning.here))},
        "arms": [{"arm": item.arm, "tau2": item.said_tau2, "sigma2": item.said_sigma2} for item in planning.variances],
        "without": planning.without, "apart": planning.apart,
    }  # fmt: skip
    return json.dumps(document, indent=1) + "\n"
