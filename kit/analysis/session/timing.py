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
    return len({item.round for item in session.samples if item.counts and item.rerun_of is None})


@dataclass(frozen=True)
class _Round:
    """``began``: Unix time."""

    began: float
    number: int
    seconds: float  # of its runs alone


def elapsed(session: Session) -> float | None:
    """Return the seconds from the first run to the end of the last, without pauses; None where no run has a time."""
    made = list(_rounds(session))
    return sum(_gaps(made)) + (_mean(made) or made[-1].seconds) if made else None


def round_seconds(session: Session, arms: Collection[str] = ()) -> float | None:
    """Return what a round takes with all that comes with it; None where no run has a time. ``arms``: those of the
    round, all where it is empty."""
    made = [item for item in _rounds(session) if item.number]
    whole = (_mean(made) or made[-1].seconds) if made else None
    if not (arms and whole):
        return whole
    taken: dict[str, dict[int, float]] = {}  # seconds of an arm's runs, by round
    for sample in session.samples:
        if sample.counts and sample.rerun_of is None:
            of_arm = taken.setdefault(sample.arm, {})
            of_arm[sample.round] = of_arm.get(sample.round, 0.0) + _seconds(sample)
    rounds = {number for of_arm in taken.values() for number in of_arm}
    usual = sum(sum(of_arm.values()) for of_arm in taken.values()) / len(rounds)
    racing = sum(mean(of_arm.values()) for arm, of_arm in taken.items() if arm in arms)
    return whole * racing / usual if usual else whole


def _rounds(session: Session) -> Iterator[_Round]:
    timed = (item for item in session.samples if item.started > 0 and item.kind not in (TRACED, IMPORTED))
    ordered = sorted(timed, key=lambda item: (item.round, item.rerun_of or 0))
    made = [list(group) for _, group in groupby(ordered, key=lambda item: (item.round, item.rerun_of))]
    for group in sorted(made, key=lambda group: min(item.started for item in group)):
        yield _Round(min(item.started for item in group), group[0].round, sum(map(_seconds, group)))


def _seconds(sample: Sample) -> float:
    return (sample.engine_seconds or 0.0) + sum((phase.real or 0.0) + (phase.flush or 0.0) for phase in sample.phases)


def _gaps(made: Sequence[_Round]) -> list[float]:
    gaps = [later.began - earlier.began for earlier, later in pairwise(made)]
    return [gap for gap in gaps if gap <= _PAUSE * median(gaps)]


def _mean(made: Sequence[_Round]) -> float | None:
    gaps = _gaps(made)
    return mean(gaps) if gaps else None


def arm_seconds(session: Session, arm: str) -> float:
    """Return the real time of all measured runs of an arm, failed ones included."""
    runs = (item for item in session.samples if item.arm == arm and item.kind == "measured")
    return sum(phase.real or 0.0 for item in runs for phase in item.phases)
