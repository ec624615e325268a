"""A night whose rounds several machines have made."""

from __future__ import annotations

from dataclasses import replace

from kit.model.fact import ROUNDS_OF, stored
from kit.model.sample import Sample
from kit.model.session import Session
from tests.nights import night

PENALTIES = {"one": 1.05, "two": 1.10, "three": 1.15, "four": 1.20}


def shared(rounds: int = 16) -> Session:
    """On each machine the arm costs something else; rounds were dealt in turn."""
    made = night(1, 0.0, 0.002, rounds)
    names = list(PENALTIES)
    who = {round_: names[round_ % 4] for round_ in range(1, rounds + 1)}
    samples = [_slower(item, PENALTIES[who[item.round]] if item.arm != "bare" else 1.0) for item in made.samples]
    facts = stored(ROUNDS_OF.fact(", ".join(str(b) for b in who if who[b] == name), name) for name in names)
    return replace(made, samples=tuple(samples), facts={**made.facts, **facts, "worker": ", ".join(names)})


def _slower(item: Sample, times: float) -> Sample:
    return replace(item, phases=tuple(replace(phase, real=(phase.real or 0) * times) for phase in item.phases))
