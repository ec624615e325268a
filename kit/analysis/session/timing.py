"""How long a session and its rounds took, and the runs of an arm. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import mean, median

from kit.model.sample import IMPORTED, TRACED, Sample
from kit.model.session import Session

#: A gap between two rounds this many times the usual one is a pause: the session was stopped and resumed.
_PAUSE = 10


def count_rounds(session: Session) -> int:
    """Return the number of rounds that were measured, without reruns."""
    return len({sample.round for sample in session.samples if sample.counts and sample.rerun_of is None})


@dataclass(frozen=True)
class _Round:
    """``began``: Unix time."""

    began: float
    number: int
    seconds: float  # of its runs alone


def elapsed(session: Session) -> float | None:
    """Return the seconds from the first run to the end of the last, without pauses; None where no run has a time."""
    rounds = list(_rounds(session))
    return sum(_gaps(rounds)) + (_mean(rounds) or rounds[-1].seconds) if rounds else None


def round_seconds(session: Session, arms: Collection[str] = ()) -> float | None:
    """Return what a round takes with all that comes with it; None where no run has a time. ``arms``: those of the
    round, all where it is empty."""
    timed_rounds = [round_ for round_ in _rounds(session) if round_.number]
    whole = (_mean(timed_rounds) or timed_rounds[-1].seconds) if timed_rounds else None
    if not (arms and whole):
        return whole
    seconds: dict[str, dict[int, float]] = {}  # seconds of an arm's runs, by round
    for sample in session.samples:
        if sample.counts and sample.rerun_of is None:
            of_arm = seconds.setdefault(sample.arm, {})
            of_arm[sample.round] = of_arm.get(sample.round, 0.0) + _seconds(sample)
    rounds = {number for of_arm in seconds.values() for number in of_arm}
    usual = sum(sum(of_arm.values()) for of_arm in seconds.values()) / len(rounds)
    racing = sum(mean(of_arm.values()) for arm, of_arm in seconds.items() if arm in arms)
    return whole * racing / usual if usual else whole


def _rounds(session: Session) -> Iterator[_Round]:
    timed = (sample for sample in session.samples if sample.started > 0 and sample.kind not in (TRACED, IMPORTED))
    ordered = sorted(timed, key=lambda sample: (sample.round, sample.rerun_of or 0))
    groups = [list(group) for _, group in groupby(ordered, key=lambda sample: (sample.round, sample.rerun_of))]
    for group in sorted(groups, key=lambda group: min(sample.started for sample in group)):
        yield _Round(min(sample.started for sample in group), group[0].round, sum(map(_seconds, group)))


def _seconds(sample: Sample) -> float:
    return (sample.engine_seconds or 0.0) + sum((phase.real or 0.0) + (phase.flush or 0.0) for phase in sample.phases)


def _gaps(rounds: Sequence[_Round]) -> list[float]:
    gaps = [later.began - earlier.began for earlier, later in pairwise(rounds)]
    return [gap for gap in gaps if gap <= _PAUSE * median(gaps)]


def _mean(rounds: Sequence[_Round]) -> float | None:
    gaps = _gaps(rounds)
    return mean(gaps) if gaps else None


def arm_seconds(session: Session, arm: str) -> float:
    """Return the real time of all measured runs of an arm, failed ones included."""
    runs = (sample for sample in session.samples if sample.arm == arm and sample.kind == "measured")
    return sum(phase.real or 0.0 for sample in runs for phase in sample.phases)
