"""What an arm costs on a farm: the answer, a line for each arm and class, machines that do not fit or were left out."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tabulate import tabulate

from kit.analysis.compare import LESS, MORE, NOT_DETECTED
from kit.analysis.farm import LEAST_TO_FIT, FarmRatio, MachineRatio
from kit.analysis.farm_answer import FarmAnswer, FarmArm, LeftOut
from kit.core.listing import listed
from kit.report import units
from kit.report.interval import percent_interval
from kit.report.sheet import render_sheet
from kit.report.shown import shown
from kit.report.wrap import screen, wrap

_CLASS = 40
_HEADERS = ("arm / baseline", "machines", "mean, 95 %", "another machine", "spread")
_MACHINE_HEADERS = ("arm / baseline", "machine", "rounds", "change, 95 %", "fits")
_WORDS = ((MORE, "slower"), (LESS, "faster"), (NOT_DETECTED, "not significant"))
#: Classes, machines and sessions that are listed before the rest is counted.
_MOST = 6
#: Of those that were left out for one reason.
_NAMED = 3
_LARGEST = 5.0  # a logarithm: three machines may leave open any spread


@dataclass(frozen=True)
class FarmView:
    """The answer in a sentence, the table, and what must be known with it. ``machines``: what each says by itself;
    ``sessions``: in which session."""

    headline: str
    rows: Sequence[Sequence[str]]
    lines: Sequence[str]
    machines: Sequence[Sequence[str]]
    sessions: Sequence[str]
    headers: Sequence[str] = _HEADERS
    machine_headers: Sequence[str] = _MACHINE_HEADERS


def view_farm(farm: FarmAnswer) -> FarmView:
    farm = shown(farm)
    lines = [
        *_few_lines(farm),
        *_together_lines(farm),
        *_fit_lines(farm),
        *_class_lines(farm),
        *left_lines(farm.left_out),
        *_notes(farm),
    ]
    rows = list(_rows(farm)) if any(item.whole.ratio for item in farm.arms) else []
    sessions = [machine.session for item in farm.arms for machine in item.whole.machines]
    return FarmView(headline(farm), rows, lines, list(_machine_rows(farm)), sessions)


def render_farm(farm: FarmAnswer, tablefmt: str = "simple") -> str:
    view = view_farm(farm)
    parts = [view.headline if tablefmt == "github" else wrap(view.headline, screen())]
    if view.rows:
        parts.append(tabulate(view.rows, view.headers, tablefmt=tablefmt, disable_numparse=True))
    if tablefmt == "github":
        parts.append("\n".join(f"- {line}" for line in view.lines))
    else:
        parts.append("\n".join(wrap(line, screen()) for line in view.lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_farm_markdown(farm: FarmAnswer) -> str:
    return render_farm(farm, "github")


def headline(farm: FarmAnswer) -> str:
    """``kernel:short on 12 machines of 2 classes: slower: layer:overlay2 (+4.1 %); …``"""
    if not farm.arms:
        return f"{farm.title}: no machine has compared an arm"
    several = f" of {len(farm.classes)} classes" if len(farm.classes) > 1 else ""
    where = f"{farm.title} on {farm.machines} machine{'s' if farm.machines != 1 else ''}{several}"
    said = []
    for verdict, word in _WORDS:
        mine = [item for item in farm.arms if item.whole.verdict == verdict]
        if mine:
            said.append(f"{word}: {', '.join(_said(item) for item in mine)}")
    if not said:
        if not any(item.whole.machines for item in farm.arms):
            return f"{where}: none of them has a figure of {farm.arms[0].metric} that counts"
        return f"{where}: {farm.arms[0].whole.reason or 'no interval'}"
    return f"{where}: {'; '.join(said)}"


def _said(item: FarmArm) -> str:
    name = f"{item.arm}{units.at(item.point)}"
    return name if item.whole.ratio is None else f"{name} ({units.percent(item.whole.ratio)})"


def _rows(farm: FarmAnswer) -> Iterator[Sequence[str]]:
    for item in farm.arms:
        yield _row(units.against(item), item.whole)
        for one in item.classes:
            yield _row(f"└ {textwrap.shorten(one.machine_class, _CLASS, placeholder='…')}", one)


def _row(name: str, item: FarmRatio) -> Sequence[str]:
    if item.ratio is None:
        return name, str(len(item.machines)), units.NOTHING, units.NOTHING, units.NOTHING  # the headline says why
    return (
        name,
        str(len(item.machines)),
        percent_interval(item.ratio, item.low, item.high),
        _another(item),
        spread(item),
    )


def _machine_rows(farm: FarmAnswer) -> Iterator[Sequence[str]]:
    for item in farm.arms:
        for machine, fits in _judged(item):
            found = machine.ratio
            change = percent_interval(found.estimate, found.low, found.high)
            shown_fits = {None: units.NOTHING, True: "yes", False: "no"}[fits]
            yield units.against(item), machine.machine, str(found.n), change, shown_fits


def _judged(item: FarmArm) -> Iterator[tuple[MachineRatio, bool | None]]:
    """Its machines, and whether each fits; None where its class has too few to tell."""
    misfits = _misfits(item)
    many = [one for one in item.classes or (item.whole,) if len(one.machines) >= LEAST_TO_FIT]
    told = {machine.machine for one in many for machine in one.machines}
    for machine in item.whole.machines:
        yield machine, machine not in misfits if machine.machine in told else None


def _misfits(item: FarmArm) -> list[MachineRatio]:
    """Within their class where there are several."""
    return [misfit.found for one in item.classes or (item.whole,) for misfit in one.misfits]


def _another(item: FarmRatio) -> str:
    if item.another is None or item.another.low is None or item.another.high is None:
        return units.NOTHING
    low, high = (units.percent(end).removesuffix(" %") for end in (item.another.low, item.another.high))
    return f"[{low}, {high}] %"


def spread(item: FarmRatio) -> str:
    """``2.3 % [1.1, 5.2]``: one standard deviation, with its interval."""
    if item.spread is None:
        return units.NOTHING
    tau, low, high = (
        100 * math.expm1(min(value, 5.0)) for value in (item.spread.tau, item.spread.low, item.spread.high)
    )
    return f"{tau:.1f} % [{low:.1f}, {high:.1f}]"


def _few_lines(farm: FarmAnswer) -> Iterator[str]:
    """Of arms that too few machines have measured what each of these says."""
    few = [(item, machine) for item in farm.arms if item.whole.ratio is None for machine in item.whole.machines]
    for item, machine in few[:_MOST]:
        found = machine.ratio
        change = percent_interval(found.estimate, found.low, found.high)
        yield f"{machine.machine}, {units.against(item)}: {change} by itself; kit show {machine.session}"
    if len(few) > _MOST:
        yield f"{len(few) - _MOST} more figures of single machines: --format csv"


def _together_lines(farm: FarmAnswer) -> Iterator[str]:
    if farm.together:
        yield (
            f"NOT A FARM: {listed(farm.together, _MOST)} may have shared one machine: they disturb each other, and "
            "what they have in common is taken for what machines have in common"
        )


def _fit_lines(farm: FarmAnswer) -> Iterator[str]:
    """Machines that do not fit: within their class where there are several."""
    for item in farm.arms:
        for one in item.classes or (item.whole,):
            for misfit in one.misfits:
                found = misfit.found.ratio
                yield (
                    f"outlier: {misfit.found.machine}, {units.against(item)}: "
                    f"{percent_interval(found.estimate, found.low, found.high)} by itself, "
                    f"{units.chance(misfit.p)} among {len(one.machines)} machines; kit show {misfit.found.session}"
                )
            if one.without:
                rest = percent_interval(one.without.estimate, one.without.low, one.without.high)
                which = "it" if len(one.misfits) == 1 else f"these {len(one.misfits)}"
                yield (
                    f"the mean includes outliers; {units.against(item)} without {which}: {rest} "
                    f"of {one.without.n} machines"
                )


def _class_lines(farm: FarmAnswer) -> Iterator[str]:
    if len(farm.classes) > 1:
        classes = [f"{count} of {name}" for name, count in farm.classes.items()]
        yield f"classes: {listed(classes, _MOST, '; ')}"
    differing = [
        f"{units.against(item)} ({units.chance(item.apart or 0.0)})" for item in farm.arms if item.classes_differ
    ]
    if differing:
        yield f"classes differ: {', '.join(differing)}: read each class by itself, no machine is like the mean of all"


def left_lines(left_out: Sequence[LeftOut]) -> Iterator[str]:
    """A line for each reason, the most frequent first: ``left out: 14 machines, kit: 1 → 2: b07 (session …), …``."""
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


def _notes(farm: FarmAnswer) -> Iterator[str]:
    known = [one for item in farm.arms for one in (item.whole, *item.classes) if one.spread]
    if not known:
        return
    yield (
        "another machine: where the penalty of a machine not measured lies, with 95 %; spread: standard deviation of "
        "the machines' true penalties with its 95 % interval, noise of their rounds taken out"
    )
    if any(one.spread and one.spread.with_noise for one in known):
        yield "most machines ran one round: what noise rounds have is not known, and the spread holds it"


def farm_rows(farm: FarmAnswer) -> Iterator[dict[str, Any]]:
    """One flat row for each arm and class, then one for each of its machines."""
    for item in farm.arms:
        for one in (item.whole, *item.classes):
            common = {"scenario": farm.title, "arm": item.arm, "baseline": item.baseline, "point": item.point,
                      "phase": item.phase, "metric": item.metric, "class": one.machine_class}  # fmt: skip
            yield {
                **common, "machine": "", "session": "", "machines": len(one.machines), "ratio": one.ratio,
                "low": one.low, "high": one.high, "low_all": one.low_all, "high_all": one.high_all,
                "tau": one.spread and one.spread.tau, "tau_low": one.spread and one.spread.low,
                "tau_high": one.spread and one.spread.high, "i_squared": one.spread and one.spread.share,
                "another_low": one.another and one.another.low, "another_high": one.another and one.another.high,
                "fits": None, "reason": one.reason,
            }  # fmt: skip
        for machine, fits in _judged(item):
            found = machine.ratio
            yield {
                **common, "class": machine.machine_class, "machine": machine.machine, "session": machine.session,
                "machines": 1, "ratio": found.estimate, "low": found.low, "high": found.high, "rounds": found.n,
                "fits": fits,
            }  # fmt: skip


def render_farm_csv(farm: FarmAnswer) -> str:
    rows = list(farm_rows(shown(farm)))
    return render_sheet(list(dict.fromkeys(name for row in rows for name in row)), rows)


def render_farm_json(farm: FarmAnswer) -> str:
    farm = shown(farm)
    document = asdict(farm)
    for item, given in zip(document["arms"], farm.arms, strict=True):
        item["whole"]["verdict"] = given.whole.verdict
        item["classes_differ"] = given.classes_differ
    return json.dumps({"schema": 1, **document}, indent=1) + "\n"
