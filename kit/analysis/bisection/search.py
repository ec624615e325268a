"""The search for the first slow candidate: a binary search whose steps share the allowed probability of error. Pure.

All steps together err with this probability at most, by Bonferroni's inequality. The share of a step is what is left of
it, divided by the number of verdicts that may still be needed. It depends on earlier steps alone. So a step's guarantee
holds, given them, and the sum of all shares is never above the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from kit.analysis.bisection.bisection import (
    FOUND,
    INCONCLUSIVE,
    NO_SLOWDOWN,
    SEVERAL,
    SKIPPED,
    Bisection,
    BisectionStep,
    Candidate,
)
from kit.analysis.session.slowdown import SLOWER, UNDECIDED
from kit.core.errors import RunError

#: Compares a candidate with the good one; its verdict may err with this probability.
Measure = Callable[[Candidate, float], BisectionStep]


def search(
    good: Candidate, candidates: Sequence[Candidate], arm: str, threshold: float, error: float, measure: Measure
) -> Bisection:
    """Return the result. ``candidates``: oldest first, the last is said to be slow. That is checked first: a search
    between two equal ends would name a commit at random. ``error``: of the whole answer. Raises RunError if the last
    candidate can't be measured."""
    steps: list[BisectionStep] = []
    fast, slow, left = -1, len(candidates) - 1, error  # places of the last fast and of the first slow one known so far
    skipped: set[int] = set()
    place: int | None = slow
    result = ""
    while place is not None and not result:
        share = left / (most_verdicts(slow - fast) + (not steps))
        step = measure(candidates[place], share)
        steps.append(step)
        if step.verdict == SKIPPED and place == slow:
            hint = "start again, which tries it again (all steps with --restart); or give another --bad"
            raise RunError(f"the bad end {step.candidate.name} can't be measured: {step.reason}", hint)
        if step.verdict == SKIPPED:
            skipped.add(place)
        elif step.verdict == UNDECIDED:
            result = INCONCLUSIVE
        elif step.verdict == SLOWER:
            left, slow = left - share, place
        elif place == slow:
            result = NO_SLOWDOWN
        else:
            left, fast = left - share, place
        place = _nearest_to_middle(fast, slow, skipped)
    shown = any(step.verdict == SLOWER for step in steps)
    suspects = () if not shown else tuple(candidates[fast + 1 : slow + 1])
    result = result or (FOUND if len(suspects) == 1 else SEVERAL)
    return Bisection(arm, threshold, good, tuple(candidates), tuple(steps), result, suspects)


def most_verdicts(several: int) -> int:
    """Return how many verdicts find one of several candidates: the logarithm to base 2, rounded up."""
    return (several - 1).bit_length()


def _nearest_to_middle(fast: int, slow: int, skipped: Container[int]) -> int | None:
    """Return the place to measure next; None if no candidate between the two is left."""
    places = [place for place in range(fast + 1, slow) if place not in skipped]
    return min(places, key=lambda place: (abs(2 * place - fast - slow), place), default=None)
