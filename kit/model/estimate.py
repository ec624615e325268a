"""How long a session will take, by what earlier ones of its kind took on this machine. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby, pairwise

from kit.model.plan import Plan
from kit.model.sample import SLICES, TRACED, WHOLE, Sample, shown_slices


def run_seconds(samples: Sequence[Sample], slices: float | None = None) -> float | None:
    """What one run took with all that comes with it (placing, syncs, the machine watched at rest): the mean distance of
    two starts. A pause in which a session was stopped is left out, as what is longer than ten median distances.
    ``slices``: by turns of so many seconds, None for whole; runs of another kind tell nothing of these. Arms by turns
    begin at once: each takes its share of the time until the next do."""
    timed = (item for item in samples if item.kind not in ("imported", TRACED))
    alike = (item for item in timed if dict(item.digests).get(SLICES, WHOLE) == shown_slices(slices))
    ordered = sorted(alike, key=lambda item: item.started)
    made = [list(group) for _, group in groupby(ordered, id if slices is None else _together)]
    gaps = sorted((later[0].started - group[0].started) / len(group) for group, later in pairwise(made))
    usual = [gap for gap in gaps if gap <= 10 * gaps[len(gaps) // 2]]
    return sum(usual) / len(usual) if usual else None


def _together(sample: Sample) -> tuple[int, str, int | None]:
    """What runs by turns with each other have in common."""
    return sample.block, sample.point, sample.repeats


def how_long(plan: Plan, seconds: float | None, not_run: Collection[str] = ()) -> str:
    """A sentence for the user, before anything is run. ``not_run``: arms that could not run the last time."""
    arms = sum(str(arm) not in not_run for arm in plan.arms)
    runs = arms * len(plan.points) * (plan.rounds + (plan.cache == "warm"))
    least = "at least " if plan.sequential else ""
    what = f"{least}{plan.rounds} round{'s' if plan.rounds != 1 else ''} of {arms} arms, {runs} runs"
    if plan.budget is not None:
        return f"{what}, {_minutes(plan.budget)} at most"
    if seconds is None:
        return f"{what}; how long that takes the first round will tell: none like it was measured here before"
    return f"{what}: about {_minutes(runs * seconds)}, by the last session of this kind"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"
