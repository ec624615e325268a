"""CPU by part of the machine and by function, arm against baseline, from the traced runs of a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from kit.analysis.analyse import Analysis
from kit.analysis.profiles import ArmProfile, FunctionCost, ProfileAnalysis, analyse_profiles
from kit.analysis.stacks import OTHERS, StackCost
from kit.model.session import Session
from kit.report import units
from kit.report.plot.picture import CHARACTER, shortened
from kit.report.wrap import NARROW, wrap

#: What a terminal takes, and a function's name of it.
_NAME = 34


@dataclass(frozen=True)
class ProfileTable:
    title: str
    headers: tuple[str, ...]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        made = tabulate(self.rows, self.headers, tablefmt="simple", disable_numparse=True)
        return f"{wrap(self.title, NARROW)}\n{made}"


def render_profile(session: Session, analysis: Analysis) -> str:
    """Of every arm: a sentence, and a table by part of the machine and by function."""
    found = analyse_profiles(session)
    if not found:
        return "no stacks were taken in this session: kit compare --profile\n"
    blocks = []
    for item in found:
        blocks.append(wrap(about(item), NARROW))
        for arm in item.arms:
            blocks.append(wrap(differs(arm, item.point), NARROW))
            blocks += [table.text() for table in tables(arm, item.point)]
    blocks.append(f"flame graphs: kit report {session.id}")
    return "\n\n".join(blocks) + "\n"


def about(item: ProfileAnalysis) -> str:
    """What was sampled, and what is missing of it."""
    rounds = f"{item.blocks} traced round{'s' if item.blocks != 1 else ''}"
    lost = f"; {item.lost:,} more were lost ({item.lost / (item.samples + item.lost):.1%})" if item.lost else ""
    return f"CPU of the whole machine{units.at(item.point)}, {rounds}: {item.samples:,} stacks by {item.event}{lost}"


def differs(arm: ArmProfile, point: str) -> str:
    """How much more CPU in all, in which parts of the machine and functions most of it is told to be."""
    whole = units.more_seconds(arm.whole, alone=True)
    head = f"{arm.arm} against {arm.baseline}{units.at(point)}: {whole} of CPU"
    parts = [item for item in arm.parts if item.certain]
    functions = [item for item in arm.functions if item.own and item.own.certain]
    functions.sort(key=lambda item: -abs(item.own.difference) if item.own else 0.0)
    said = [f"{item.name[0]} {item.difference:+z.2f} s" for item in parts[:3]]
    named = [f"{item.name} {item.own.difference:+z.3f} s" for item in functions[:3] if item.own]
    if not said and not named:
        return f"{head}; no part of the machine and no function is told to differ."
    tail = f"; own time differs most in {', '.join(named)}" if named else "; no function by itself is told to differ"
    return f"{head}{', ' if said else ''}{', '.join(said)}{tail}."


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
    known = [item for item in costs if item]
    return f"; intervals of all {known[0].family} at once" if known and known[0].low_all is not None else ""


def _part(item: StackCost) -> tuple[str, ...]:
    name = "all others" if item.name[0] == OTHERS else item.name[0]
    return name, units.seconds(item.base_mean), units.more_seconds(item)


def _whole(item: StackCost) -> tuple[str, ...]:
    return "all", units.seconds(item.base_mean), units.more_seconds(item, alone=True)


def _function(item: FunctionCost) -> tuple[str, ...]:
    more = (units.more_seconds(cost) if cost else units.NOTHING for cost in (item.own, item.inclusive))
    base = units.seconds(item.inclusive.base_mean) if item.inclusive else units.NOTHING
    return shortened(item.name, _NAME * CHARACTER), *more, base
