"""CPU by part of the machine and by function, arm against baseline, from the traced runs of a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from kit.analysis.session.analyse import Analysis
from kit.extra.tracing.analysis.profiles import ArmProfile, FunctionCost, ProfileAnalysis, analyse_profiles
from kit.extra.tracing.analysis.stacks import OTHERS, StackCost
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
        made = tabulate(self.rows, self.headers, tablefmt="simple", disable_numparse=True)
        return f"{wrap(self.title, NARROW)}\n{made}"


def render_profile(session: Session, analysis: Analysis) -> str:
    """Return, for every arm, a sentence and a table by part of the machine and by function."""
    found = analyse_profiles(session)
    if not found:
        return "this session sampled no stacks; run kit compare … --profile\n"
    rounds = []
    for item in found:
        rounds.append(wrap(about(item), NARROW))
        for arm in item.arms:
            rounds.append(wrap(differs(arm, item.point), NARROW))
            rounds += [table.text() for table in tables(arm, item.point)]
    rounds.append(f"flame graphs: kit report {session.id}")
    return "\n\n".join(rounds) + "\n"


def about(item: ProfileAnalysis) -> str:
    """Return what was sampled, and which samples are missing."""
    rounds = f"{item.rounds} traced round{'s' if item.rounds != 1 else ''}"
    share = item.lost / (item.samples + item.lost) if item.lost else 0.0
    lost = f"; {item.lost:,} more were lost ({units.share(share, 1)})" if item.lost else ""
    off = "; time with interrupts off is counted where the kernel enables them again" if item.event == _CLOCK else ""
    return (
        f"CPU of the whole machine{units.at(item.point)}, {rounds}: {item.samples:,} stacks by {item.event}{lost}{off}"
    )


def differs(arm: ArmProfile, point: str) -> str:
    """Return how much more CPU in all, and the parts of the machine and functions that differ significantly."""
    whole = amount_interval(arm.whole.difference)
    head = f"{arm.arm} vs {arm.baseline}{units.at(point)}: {whole} of CPU"
    parts = [f"{item.name[0]} {item.difference.estimate:+z.2f} s" for item in arm.parts if item.difference.significant]
    own = _significant([item.own for item in arm.functions])
    inclusive = _significant([item.inclusive for item in arm.functions])
    if not parts and not own and not inclusive:
        return f"{head}; no part of the machine and no function differs significantly."
    said = [", ".join(parts[:_SAID]) or "no part of the machine"]
    said.append(f"of functions, by their own time, {', '.join(own)}" if own else "no function by its own time")
    if inclusive and not own:
        said.append(f"with what they call, {', '.join(inclusive)}")
    return f"{head}. Significant: {'; '.join(said)}."


def _significant(costs: Sequence[StackCost | None]) -> list[str]:
    """Return the functions that differ significantly, those that do most."""
    clear = [(item.name[-1], item.difference.estimate) for item in costs if item and item.difference.significant]
    clear.sort(key=lambda function: -abs(function[1]))
    return [f"{shortened(name, _NAME * CHARACTER)} {seconds:+z.3f} s" for name, seconds in clear[:_SAID]]


def tables(arm: ArmProfile, point: str) -> list[ProfileTable]:
    against = f"{arm.arm} / {arm.baseline}{units.at(point)}"
    return [
        ProfileTable(
            f"{against}: CPU by part of the machine{_family(arm.parts)}",
            ("part", f"on {arm.baseline}", "more, 95 %"),
            [*(_part(item) for item in arm.parts if item.mean or item.base_mean), _whole(arm.whole)],
        ),
        ProfileTable(
            f"{against}: functions that differ most{_family([item.inclusive for item in arm.functions])}",
            ("function", "own, more", "with what it calls, more", f"on {arm.baseline}"),
            [_function(item) for item in arm.functions],
        ),
    ]


def _family(costs: Sequence[StackCost | None]) -> str:
    known = [item for item in costs if item and item.difference.low is not None]
    return f"; intervals simultaneous for all {known[0].family}" if known else ""


def _part(item: StackCost) -> tuple[str, ...]:
    name = "all others" if item.name[0] == OTHERS else item.name[0]
    return name, units.seconds(item.base_mean), amount_interval(item.difference.together)


def _whole(item: StackCost) -> tuple[str, ...]:
    return "all", units.seconds(item.base_mean), amount_interval(item.difference)


def _function(item: FunctionCost) -> tuple[str, ...]:
    more = (amount_interval(cost.difference.together) if cost else units.NOTHING for cost in (item.own, item.inclusive))
    base = units.seconds(item.inclusive.base_mean) if item.inclusive else units.NOTHING
    return shortened(item.name, _NAME * CHARACTER), *more, base
