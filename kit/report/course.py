"""How a session went: its rounds and how long they took, why it ended, what was not run, which runs failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import mean, median

from kit.analysis.analyse import Analysis, whole_real
from kit.model.arm import known_arm
from kit.model.fact import CPU, RUN_ORDER
from kit.model.plan import MOST_ROUNDS
from kit.model.sample import INTERLEAVED, SEQUENTIAL, TRACED, Sample
from kit.model.session import DONE, RUNNING, NotRun, Session
from kit.report import units

#: How a session ended.
DECIDED, UNDECIDED, SPENT, REACHED, AS_ASKED = (
    "decided", "undecided", "budget spent", "precision reached", "as asked",
)  # fmt: skip
#: A gap between two rounds this many times the usual one is a pause: the session was stopped and resumed.
_PAUSE = 10


def head(session: Session) -> str:
    """Return what was measured, when, and how often."""
    state = "" if session.status == DONE else f", {session.status}"
    return f"{session.title}: session {session.id}, {units.moment(session.created)} UTC, {rounds(session)}{state}"


def summary(session: Session, analysis: Analysis) -> str:
    """Return ``kernel:short, 2 cores, ext4 and btrfs: 4 interleaved rounds in 8 min 20 s; decided``."""
    cores = re.search(r"\d+ cores?", CPU.text(session.facts))
    where = [session.title, *([cores[0]] if cores else []), *([both] if (both := _filesystems(session)) else [])]
    took = elapsed(session)
    parts = [f"{', '.join(where)}: {rounds(session)}{f' in {units.duration(took)}' if took else ''}"]
    return "; ".join([*parts, *([how] if (how := ending(session, analysis)) else [])])


def ending(session: Session, analysis: Analysis) -> str:
    """Return the rule that ended the session, else its status; '' where neither is known."""
    request = session.request
    if session.imported or not analysis.rankings:
        return "" if session.status == DONE else session.status
    if session.status != DONE:
        return "not finished" if session.status == RUNNING else session.status
    if request.precision is not None:
        reaches = [item.reach for item in whole_real(analysis.comparisons) if not item.control]
        if request.budget is None or max(reaches, default=0.0) <= request.precision:
            return REACHED if count_rounds(session) < MOST_ROUNDS else f"{UNDECIDED}, {MOST_ROUNDS} rounds"
        return SPENT
    if is_until_decided(session):
        if all(ranking.decided for ranking in analysis.rankings):
            return DECIDED
        return f"{UNDECIDED}, {SPENT}" if count_rounds(session) < MOST_ROUNDS else f"{UNDECIDED}, {MOST_ROUNDS} rounds"
    return SPENT if request.budget is not None else AS_ASKED


def is_until_decided(session: Session) -> bool:
    """Return whether the session runs until each arm has a verdict."""
    return session.request.until_decided


def rounds(session: Session) -> str:
    """Return ``5 interleaved rounds``: those that were planned, without reruns."""
    count = count_rounds(session)
    order = RUN_ORDER.text(session.facts)
    known = f" {order}" if order in (INTERLEAVED, SEQUENTIAL) else ""
    return f"{count}{known} round{'s' if count != 1 else ''}"


def count_rounds(session: Session) -> int:
    """Return the number of rounds that were measured, without reruns."""
    return len({item.block for item in session.samples if item.counts and item.repeats is None})


def _filesystems(session: Session) -> str:
    """Return those of the arms that ran."""
    ran = {sample.arm for sample in session.samples}
    found = dict.fromkeys(made.filesystem for arm in session.arms if arm in ran and (made := known_arm(arm)))
    return units.listed(list(found)) if found else ""


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


def round_seconds(session: Session) -> float | None:
    """Return what a round takes with all that comes with it; None where no run has a time."""
    made = [item for item in _rounds(session) if item.number]
    return (_mean(made) or made[-1].seconds) if made else None


def _rounds(session: Session) -> Iterator[_Round]:
    timed = (item for item in session.samples if item.started > 0 and item.kind not in (TRACED, "imported"))
    ordered = sorted(timed, key=lambda item: (item.block, item.repeats or 0))
    made = [list(group) for _, group in groupby(ordered, key=lambda item: (item.block, item.repeats))]
    for group in sorted(made, key=lambda group: min(item.started for item in group)):
        yield _Round(min(item.started for item in group), group[0].block, sum(map(_seconds, group)))


def _seconds(sample: Sample) -> float:
    return (sample.engine_seconds or 0.0) + sum((phase.real or 0.0) + (phase.flush or 0.0) for phase in sample.phases)


def _gaps(made: Sequence[_Round]) -> list[float]:
    gaps = [later.began - earlier.began for earlier, later in pairwise(made)]
    return [gap for gap in gaps if gap <= _PAUSE * median(gaps)]


def _mean(made: Sequence[_Round]) -> float | None:
    gaps = _gaps(made)
    return mean(gaps) if gaps else None


def not_run(session: Session) -> list[NotRun]:
    """Return the arms that were not run; those that share a reason share an entry, their names joined."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for item in session.not_run:
        reasons.setdefault((item.reason, item.fix), []).append(item.arm)
    return [NotRun(", ".join(arms), reason, fix) for (reason, fix), arms in reasons.items()]


def failed(session: Session) -> list[tuple[str, Sample]]:
    """Return each failed run with its place, traced ones too: ``bare, round 3``."""
    return [(f"{sample.arm}, {_place(sample)}", sample) for sample in session.samples if sample.status != "ok"]


def _place(sample: Sample) -> str:
    if not sample.block:
        return "warm-up"
    return f"traced round {sample.block}" if sample.kind == TRACED else f"round {sample.block}"
