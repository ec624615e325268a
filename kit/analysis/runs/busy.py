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
    """Busy rounds of a machine."""

    machine: str  # its name in the fleet; '' if all rounds ran on one
    rounds: tuple[int, ...]
    #: Mean number of CPUs that other programs used in these rounds; None if unknown.
    used: float | None
    cpus: int | None  # number of the machine's CPUs; None if unknown
    before: bool  # busy just before the rounds, not during them


def busy_rounds(session: Session) -> tuple[BusyRounds, ...]:
    """Return the busy rounds of each machine of the session; reruns do not count."""
    machine_of = makers(session.facts)
    runs = [run for run in session.samples if run.kind == "measured" and run.status == "ok"]
    runs = [run for run in runs if run.rerun_of is None]
    during, before = _during(runs, machine_of), _before(session, runs)
    cpus = _cpus(session.facts)
    busy = []
    for machine in sorted({machine_of.get(run.round, "") for run in runs}):
        least = _SHARE * (cpus or 2)
        used_by_round = {
            number: used for number, used in during.items() if machine_of.get(number, "") == machine and used > least
        }
        if used_by_round:
            used = sum(used_by_round.values()) / len(used_by_round)
            busy.append(BusyRounds(machine, tuple(sorted(used_by_round)), used, cpus, False))
        unknown = {number: rate for number, rate in before.items() if machine_of.get(number, "") == machine}
        if unknown:
            rates = [rate for rate in unknown.values() if rate]
            used_before = sum(rate for rate, _ in rates) / len(rates) if rates else None
            of = rates[0][1] if rates else cpus
            busy.append(BusyRounds(machine, tuple(sorted(unknown)), used_before, of, True))
    return tuple(busy)


def _during(runs: list[Sample], machine_of: Mapping[int, str]) -> dict[int, float]:
    """Return, by round, the CPUs that other programs used above the arms' usual value on that machine."""
    wholes = [(run, total(run.phases)) for run in runs]
    rates: dict[tuple[str, str, str], list[float]] = {}
    spent: dict[int, list[tuple[float, float, tuple[str, str, str]]]] = {}
    for run, phase in wholes:
        if phase.outside is not None and phase.real:
            key = run.arm, run.point, machine_of.get(run.round, "")
            rates.setdefault(key, []).append(phase.outside / phase.real)
            spent.setdefault(run.round, []).append((phase.outside, phase.real, key))
    usual = {key: usual_of(values) for key, values in rates.items()}
    return {
        number: sum(outside - usual[key] * real for outside, real, key in parts) / sum(real for _, real, _ in parts)
        for number, parts in spent.items()
    }


def _before(session: Session, runs: list[Sample]) -> dict[int, tuple[float, int] | None]:
    """Return the rounds whose outside CPU is unknown because the machine was busy before, with the CPUs then in use.
    None in sessions that did not record this."""
    noted = {int(fact.of): use for fact in BUSY_BEFORE.find(session.facts) if (use := _noted(fact.text))}
    unknown = {run.round for run in runs if total(run.phases).outside is None}
    if NO_OUTSIDE_CPU.key not in session.facts or not unknown:
        return {}
    return {number: noted.get(number) for number in unknown if number in noted or not noted}


def _noted(text: str) -> tuple[float, int] | None:
    match = re.search(r"([\d.]+) of (\d+) CPUs", text)
    return (float(match[1]), int(match[2])) if match else None


def _cpus(facts: Mapping[str, str]) -> int | None:
    """Return the number of CPUs; None where it is unknown, or machines differ."""
    counts = {int(number) for number in re.findall(r"(\d+) cores?", CPU.text(facts))}
    return counts.pop() if len(counts) == 1 else None
