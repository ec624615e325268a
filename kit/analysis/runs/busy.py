"""Rounds in which other programs used the machine, and how much. Pure.

Two figures show this: outside CPU during the round above the arm's usual value, and the machine's CPU time just before
the round. The second one counts if it made outside CPU during the round unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kit.analysis.runs.disturbance import usual_of
from kit.model.fact import BUSY_BEFORE, CPU, NO_OUTSIDE_CPU, makers
from kit.model.sample import Sample, total
from kit.model.session import Session

#: The share of the machine's CPUs above which other programs make the machine busy.
_SHARE = 0.05


@dataclass(frozen=True)
class BusyRounds:
    """Busy rounds of a machine. ``machine``: its name in the fleet, '' if all rounds ran on one. ``used``: mean number
    of CPUs that other programs used in these ``rounds``, of ``cpus`` in all; None if unknown. ``before``: just before
    the rounds, not during them."""

    machine: str
    rounds: tuple[int, ...]
    used: float | None
    cpus: int | None
    before: bool


def busy_rounds(session: Session) -> tuple[BusyRounds, ...]:
    """Return the busy rounds of each machine of the session; reruns do not count."""
    made = makers(session.facts)
    runs = [item for item in session.samples if item.kind == "measured" and item.status == "ok"]
    runs = [item for item in runs if item.rerun_of is None]
    during, before = _during(runs, made), _before(session, runs)
    cpus = _cpus(session.facts)
    found = []
    for machine in sorted({made.get(item.round, "") for item in runs}):
        least = _SHARE * (cpus or 2)
        mine = {number: used for number, used in during.items() if made.get(number, "") == machine and used > least}
        if mine:
            used = sum(mine.values()) / len(mine)
            found.append(BusyRounds(machine, tuple(sorted(mine)), used, cpus, False))
        unknown = {number: rate for number, rate in before.items() if made.get(number, "") == machine}
        if unknown:
            rates = [rate for rate in unknown.values() if rate]
            used_before = sum(rate for rate, _ in rates) / len(rates) if rates else None
            of = rates[0][1] if rates else cpus
            found.append(BusyRounds(machine, tuple(sorted(unknown)), used_before, of, True))
    return tuple(found)


def _during(runs: list[Sample], made: Mapping[int, str]) -> dict[int, float]:
    """Return, by round, the CPUs that other programs used above the arms' usual value on that machine."""
    known = [(item, total(item.phases)) for item in runs]
    rates: dict[tuple[str, str, str], list[float]] = {}
    spent: dict[int, list[tuple[float, float, tuple[str, str, str]]]] = {}
    for item, phase in known:
        if phase.outside is not None and phase.real:
            key = item.arm, item.point, made.get(item.round, "")
            rates.setdefault(key, []).append(phase.outside / phase.real)
            spent.setdefault(item.round, []).append((phase.outside, phase.real, key))
    usual = {key: usual_of(values) for key, values in rates.items()}
    return {
        number: sum(outside - usual[key] * real for outside, real, key in parts) / sum(real for _, real, _ in parts)
        for number, parts in spent.items()
    }


def _before(session: Session, runs: list[Sample]) -> dict[int, tuple[float, int] | None]:
    """Return the rounds whose outside CPU is unknown because the machine was busy before, with the CPUs then in use.
    None in sessions that did not record this."""
    noted = {int(fact.of): found for fact in BUSY_BEFORE.find(session.facts) if (found := _noted(fact.text))}
    unknown = {item.round for item in runs if total(item.phases).outside is None}
    if NO_OUTSIDE_CPU.key not in session.facts or not unknown:
        return {}
    return {number: noted.get(number) for number in unknown if number in noted or not noted}


def _noted(text: str) -> tuple[float, int] | None:
    found = re.search(r"([\d.]+) of (\d+) CPUs", text)
    return (float(found[1]), int(found[2])) if found else None


def _cpus(facts: Mapping[str, str]) -> int | None:
    """Return the number of CPUs; None where it is unknown, or machines differ."""
    found = {int(number) for number in re.findall(r"(\d+) cores?", CPU.text(facts))}
    return found.pop() if len(found) == 1 else None
