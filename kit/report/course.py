"""How a session went: its rounds, the arms that were not run, the runs that failed."""

from __future__ import annotations

from kit.model.sample import TRACED, Sample
from kit.model.session import DONE, NotRun, Session
from kit.report import units


def head(session: Session) -> str:
    """What was measured, when, and how often."""
    state = "" if session.status == DONE else f", {session.status}"
    return f"{session.title}: session {session.id}, {units.moment(session.created)} UTC, {rounds(session)}{state}"


def rounds(session: Session) -> str:
    """``5 rounds``: those that were planned, without repetitions."""
    blocks = {item.block for item in session.samples if item.counts and item.repeats is None}
    return f"{len(blocks)} round{'s' if len(blocks) != 1 else ''}"


def not_run(session: Session) -> list[NotRun]:
    """Arms that share a reason share an entry, their names joined."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for item in session.not_run:
        reasons.setdefault((item.reason, item.fix), []).append(item.arm)
    return [NotRun(", ".join(arms), reason, fix) for (reason, fix), arms in reasons.items()]


def failed(session: Session) -> list[tuple[str, Sample]]:
    """Each failed run with its place, traced ones too: ``bare, round 3``."""
    return [(f"{sample.arm}, {_place(sample)}", sample) for sample in session.samples if sample.status != "ok"]


def _place(sample: Sample) -> str:
    if not sample.block:
        return "warm-up"
    return f"traced round {sample.block}" if sample.kind == TRACED else f"round {sample.block}"
