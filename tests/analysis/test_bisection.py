"""The search for the first slow candidate: with perfect steps, with skips, and on a simulated machine."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pytest

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
from kit.analysis.bisection.search import search
from kit.analysis.session.slowdown import NOT_SLOWER, SLOWER, UNDECIDED, Slowdown, judge_slowdown
from kit.core.errors import RunError
from kit.model.arm import parse_arms
from kit.model.default import AUTO_ROUNDS
from kit.model.plan import SlowdownTest, make_plan
from kit.model.sample import Phase, Sample
from kit.session.plan.schedule import End, Schedule

GOOD = Candidate("good", "good")


def candidates(number: int) -> list[Candidate]:
    return [Candidate(str(i), str(i)) for i in range(number)]


def bisect(number: int, planted: int, broken: Collection[int] = (), noisy: Collection[int] = ()) -> Bisection:
    """Return the result of steps that never err. ``planted``: the first slow one; ``noisy``: stay undecided."""

    def measure(candidate: Candidate, error: float) -> BisectionStep:
        place = int(candidate.id)
        verdict = SLOWER if place >= planted else NOT_SLOWER
        verdict = SKIPPED if place in broken else UNDECIDED if place in noisy else verdict
        return BisectionStep(candidate, verdict, Slowdown(verdict, rounds=4), error, reason="why")

    return search(GOOD, candidates(number), "bare", 0.05, 0.05, measure)


@pytest.mark.parametrize("number", [1, 2, 3, 7, 16, 100])
def test_the_first_slow_one_is_found_in_as_few_steps_as_there_are_bits(number: int) -> None:
    for planted in range(number):
        found = bisect(number, planted)
        assert found.result == FOUND and found.first == candidates(number)[planted]
        assert found.before == (candidates(number)[planted - 1] if planted else GOOD)
        assert len(found.steps) <= 1 + (number - 1).bit_length()
        assert found.error <= 0.05 + 1e-12
        assert found.steps[0].candidate.id == str(number - 1), "the bad end is checked first"
        assert found.rounds == 4 * len(found.steps)


def test_sixteen_commits_share_the_error_equally() -> None:
    found = bisect(16, 5)
    assert [step.error for step in found.steps] == pytest.approx([0.01] * 5)


def test_without_a_slowdown_no_candidate_is_named() -> None:
    found = bisect(8, 8)
    assert (found.result, found.suspects, found.first, len(found.steps)) == (NO_SLOWDOWN, (), None, 1)


def test_skipped_candidates_leave_several_suspects_only_beside_the_first_slow_one() -> None:
    assert bisect(16, 2, broken={7, 8, 9}).result == FOUND
    found = bisect(16, 8, broken={7, 8})
    assert (found.result, [item.id for item in found.suspects]) == (SEVERAL, ["7", "8", "9"])
    for planted in range(16):
        for broken in ({3}, {6, 7, 8}, {0, 1, 2}, set(range(15))):
            found = bisect(16, planted, broken)
            assert str(planted) in [item.id for item in found.suspects]
            assert found.error <= 0.05 + 1e-12


def test_an_undecided_step_ends_the_search_with_what_is_left() -> None:
    found = bisect(16, 2, noisy={3})
    assert found.result == INCONCLUSIVE and found.undecided
    assert [item.id for item in found.suspects] == [str(i) for i in range(8)]


def test_an_undecided_bad_end_has_no_suspects() -> None:
    found = bisect(16, 2, noisy={15})
    assert (found.result, found.suspects, len(found.steps)) == (INCONCLUSIVE, (), 1)


def test_a_bad_end_that_fails_is_an_error() -> None:
    with pytest.raises(RunError, match="the bad end 3 can't be measured: why"):
        bisect(4, 1, broken={3})


def simulated(planted: int, slowdown: float, seed: int, spread: float = 0.015) -> Bisection:
    """A bisection of 16 commits on a machine with independent noise, by the kit's own schedule and test."""
    rng = np.random.default_rng(seed)
    arms = parse_arms("bare+rev=good,bare+rev=new")

    def play(penalty: float, test: SlowdownTest) -> Sequence[Sample]:
        plan = make_plan(arms, AUTO_ROUNDS, 1, "cold", arms[0], control=False, rerun=False, test=test)
        schedule, samples = Schedule(plan, map(str, arms)), list[Sample]()
        while not isinstance(round_ := schedule.next(samples), End):
            for step in round_.steps:
                real = 10 * float(np.exp(rng.normal(0, spread))) * (penalty if step.arm == arms[1] else 1.0)
                samples.append(Sample(str(step.arm), step.round, "measured", "ok", 0.0, (Phase("run", "ok", real),)))
        return samples

    def measure(candidate: Candidate, error: float) -> BisectionStep:
        test = SlowdownTest(0.05, error)
        found = judge_slowdown(
            play(1 + slowdown * (int(candidate.id) >= planted), test), str(arms[1]), str(arms[0]), test
        )
        return BisectionStep(candidate, found.verdict, found, error)

    return search(GOOD, candidates(16), "bare", 0.05, 0.05, measure)


def test_a_slowdown_of_10_percent_in_16_commits_is_found_on_a_simulated_machine() -> None:
    found = [simulated(seed % 16, 0.1, seed) for seed in range(24)]
    assert sum(item.first == candidates(16)[seed % 16] for seed, item in enumerate(found)) >= 22
    assert np.mean([item.rounds for item in found]) < 60


def test_equal_ends_are_said_to_be_equal_on_a_simulated_machine() -> None:
    assert [simulated(0, 0.0, seed).result for seed in range(12)].count(NO_SLOWDOWN) >= 11
