"""CPU by part of the machine and by function, arm against baseline, from the traced runs of a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from kit.analysis.session.analyse import Analysis
from kit.analysis.traces.profiles import ArmProfile, FunctionCost, ProfileAnalysis, analyse_profiles
from kit.analysis.traces.stacks import OTHERS, StackCost
from kit.model.session import Session
from kit.report.format import units
from kit.report.format.interval import amount_interval
from kit.report.format.wrap import NARROW, wrap
from kit.report.plot.picture import CHARACTER, shortened

#: Columns of a terminal, and of a function's name.
_NAME = 34
#: Event for machines without a counter of cycles. Its interrupt is not an NMI.
_CLOCK = "cpu-clock"
#: Most parts and functions in the sentence.
_SAID = 3


@dataclass(frozen=True)
class ProfileTable:
    title: str
    headers: tuple[str, ...]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        table = tabulate(self.rows, self.headers, tablefmt="simple", disable_numparse=True)
        return f"{wrap(self.title, NARROW)}\n{table}"


def render_profile(session: Session, analysis: Analysis) -> str:
    """Return, for every arm, a sentence and a table by part of the machine and by function."""
    analyses = analyse_profiles(session)
    if not analyses:
        return "this session sampled no stacks; run kit compare … --profile\n"
    rounds = []
    for point_profile in analyses:
        rounds.append(wrap(about(point_profile), NARROW))
        for arm in point_profile.arms:
            rounds.append(wrap(differs(arm, point_profile.point), NARROW))
            rounds += [table.text() for table in tables(arm, point_profile.point)]
    rounds.append(f"flame graphs: kit report {session.id}")
    return "\n\n".join(rounds) + "\n"


def about(analysis: ProfileAnalysis) -> str:
    """Return what was sampled, and which samples are missing."""
    rounds = f"{analysis.rounds} traced round{'s' if analysis.rounds != 1 else ''}"
    share = analysis.lost / (analysis.samples + analysis.lost) if analysis.lost else 0.0
    lost = f"; {analysis.lost:,} more were lost ({units.share(share, 1)})" if analysis.lost else ""
    off = (
        "; time with interrupts off is counted where the kernel enables them again" if analysis.event == _CLOCK else ""
    )
    stacks = f"{analysis.samples:,} stacks by {analysis.event}"
    return f"CPU of the whole machine{units.at(analysis.point)}, {rounds}: {stacks}{lost}{off}"


def differs(arm: ArmProfile, point: str) -> str:
    """Return how much more CPU in all, and the parts of the machine and functions that differ significantly."""
    whole = amount_interval(arm.whole.difference)
    head = f"{arm.arm} vs {arm.baseline}{units.at(point)}: {whole} of CPU"
    parts = [f"{part.name[0]} {part.difference.estimate:+z.2f} s" for part in arm.parts if part.difference.significant]
    alone = _significant([function.own for function in arm.functions])
    inclusive = _significant([function.inclusive for function in arm.functions])
    if not parts and not alone and not inclusive:
        return f"{head}; no part of the machine and no function differs significantly."
    groups = [", ".join(parts[:_SAID]) or "no part of the machine"]
    groups.append(f"of functions, by their own time, {', '.join(alone)}" if alone else "no function by its own time")
    if inclusive and not alone:
        groups.append(f"with what they call, {', '.join(inclusive)}")
    return f"{head}. Significant: {'; '.join(groups)}."


def _significant(costs: Sequence[StackCost | None]) -> list[str]:
    """Return the functions that differ significantly, those that do most."""
    clear = [(cost.name[-1], cost.difference.estimate) for cost in costs if cost and cost.difference.significant]
    clear.sort(key=lambda function: -abs(function[1]))
    return [f"{shortened(name, _NAME * CHARACTER)} {seconds:+z.3f} s" for name, seconds in clear[:_SAID]]


def tables(arm: ArmProfile, point: str) -> list[ProfileTable]:
    against = f"{arm.arm} / {arm.baseline}{units.at(point)}"
    return [
        ProfileTable(
            f"{against}: CPU by part of the machine{_family(arm.parts)}",
            ("part", f"on {arm.baseline}", "more, 95 %"),
            [*(_part(part) for part in arm.parts if part.mean or part.base_mean), _whole(arm.whole)],
        ),
        ProfileTable(
            f"{against}: functions that differ most{_family([function.inclusive for function in arm.functions])}",
            ("function", "own, more", "with what it calls, more", f"on {arm.baseline}"),
            [_function(function) for function in arm.functions],
        ),
    ]


def _family(costs: Sequence[StackCost | None]) -> str:
    with_interval = [cost for cost in costs if cost and cost.difference.low is not None]
    return f"; intervals simultaneous for all {with_interval[0].family}" if with_interval else ""


def _part(cost: StackCost) -> tuple[str, ...]:
    name = "all others" if cost.name[0] == OTHERS else cost.name[0]
    return name, units.seconds(cost.base_mean), amount_interval(cost.difference.together)


def _whole(cost: StackCost) -> tuple[str, ...]:
    return "all", units.seconds(cost.base_mean), amount_interval(cost.difference)


def _function(function: FunctionCost) -> tuple[str, ...]:
    more = (
        amount_interval(cost.difference.together) if cost else units.NOTHING
        for cost in (function.own, function.inclusive)
    )
    base = units.seconds(function.inclusive.base_mean) if function.inclusive else units.NOTHING
    return shortened(function.name, _NAME * CHARACTER), *more, base
