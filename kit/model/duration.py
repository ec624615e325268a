"""Estimated duration of a session, from earlier comparable ones on this machine. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kit.core.quantity import shown_duration
from kit.model.plan import Plan
from kit.model.sample import IMPORTED, Sample
from kit.model.session import Session


def estimate(plan: Plan, last: Session | None) -> str:
    """Return a sentence for the user on the duration of the plan. ``last``: the last finished session of this kind."""
    seconds = round_seconds(last.samples) if last else None
    not_run = {entry.arm for entry in last.not_run} if last else set()
    return how_long(plan, seconds, sum(str(arm) not in not_run for arm in plan.arms))


def round_seconds(samples: Sequence[Sample]) -> float | None:
    """Return the mean time from the start of one round to the next, all overhead included (set-up, syncs, idle load).
    Gaps longer than ten median rounds are pauses and do not count. None with fewer than two."""
    starts: dict[int, float] = {}
    for sample in samples:
        if sample.counts and sample.kind != IMPORTED and sample.rerun_of is None:
            starts[sample.round] = min(sample.started, starts.get(sample.round, sample.started))
    gaps = sorted(later - earlier for earlier, later in pairwise(sorted(starts.values())))
    usual = [gap for gap in gaps if gap <= 10 * gaps[len(gaps) // 2]]
    return sum(usual) / len(usual) if usual else None


def how_long(plan: Plan, seconds: float | None, arms: int) -> str:
    """Return a sentence for the user, before anything is run. ``seconds``: of a round, by the last session of this
    kind; ``arms``: how many can run here, by that session."""
    rounds = f"{plan.rounds} round{'s' if plan.rounds != 1 else ''} of {arms} arms"
    last_time = f"; a round took {shown_duration(round(seconds))} the last time" if seconds else ""
    if plan.until_decided and plan.limit is None:
        return f"at least {rounds}; stops when each arm is decided{last_time}"
    if plan.until_decided and plan.budget is None:
        limit = shown_duration(plan.limit or 0)
        return f"at least {rounds}; stops when each arm is decided, or after {limit} (--budget){last_time}"
    if plan.until_decided:
        return f"stops when each arm is decided, or after {shown_duration(plan.budget or 0)}{last_time}"
    if plan.budget is not None:
        return f"at least {rounds}, {shown_duration(plan.budget)} at most{last_time}"
    least = "at least " if plan.open_ended else ""
    if seconds is None:
        return f"{least}{rounds}; duration unknown: no comparable session yet"
    return f"{least}{rounds}: about {shown_duration(round(plan.rounds * seconds))}, by the last session of this kind"


def after_pilot(plan: Plan, seconds: float, ended: bool) -> str:
    """Return a sentence for the user on the duration of the plan's rounds. ``seconds``: of a pilot run; ``ended``: the
    kit ended it, so a run takes longer."""
    rounds = f"{plan.rounds} round{'s' if plan.rounds != 1 else ''} of {len(plan.round(1))} runs"
    whole = plan.rounds * len(plan.round(1)) * seconds
    least = "at least" if ended else "about"
    text = f"a run takes {least} {shown_duration(seconds)}: {rounds} take {least} {_shown(whole)}"
    if plan.limit is None or whole <= plan.limit:
        return text
    limit = f"{text}, more than the {shown_duration(plan.limit)} of the budget"
    if plan.budget is None:
        return f"{limit}: no answer has fewer rounds; shorter: fewer --arms, or a shorter build"
    return f"{limit}: it ends the session earlier; an answer needs a longer --budget, or fewer --arms"


def _shown(seconds: float) -> str:
    return shown_duration(60 * round(seconds / 60) if seconds >= 600 else round(seconds))
