"""The verdict on an arm that may be slower than its baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from kit.analysis.session.slowdown import NOT_SLOWER, SLOWER, UNDECIDED, judge_slowdown
from kit.model.plan import SlowdownTest
from kit.model.sample import INTERLEAVED, RUN_ORDER, Phase, Sample

TEST = SlowdownTest(0.05, 0.01)


def samples(ratios: Sequence[float], order: str = "sequential", status: str = "ok") -> list[Sample]:
    digests = ((RUN_ORDER, order),)
    return [
        Sample(arm, number, "measured", status if arm == "new" else "ok", 0.0, (Phase("run", "ok", real),),
               digests=digests)
        for number, ratio in enumerate(ratios, 1)
        for arm, real in (("good", 10.0), ("new", 10.0 * ratio))
    ]  # fmt: skip


def around(ratio: float, noise: float, rounds: int) -> list[float]:
    return list(ratio * np.exp(np.random.default_rng(1).normal(0, noise, rounds)))


@pytest.mark.parametrize(
    ("ratio", "noise", "rounds", "verdict"),
    [
        (1.1, 0.01, 8, SLOWER),
        (1.0, 0.01, 8, NOT_SLOWER),
        (0.8, 0.01, 8, NOT_SLOWER),
        (1.1, 0.2, 8, UNDECIDED),
        (1.0, 0.01, 2, UNDECIDED),
        (1.04, 0.001, 8, SLOWER),  # both are shown, this one is nearer
        (1.01, 0.001, 8, NOT_SLOWER),
    ],
)
def test_the_verdict_needs_few_rounds_or_many(ratio: float, noise: float, rounds: int, verdict: str) -> None:
    found = judge_slowdown(samples(around(ratio, noise, rounds)), "new", "good", TEST)
    assert (found.verdict, found.rounds) == (verdict, rounds)
    assert found.ratio == pytest.approx(ratio, rel=0.2)
    if verdict == SLOWER:
        assert found.low and found.low > 1


def test_runs_that_failed_and_arms_without_runs_have_no_verdict() -> None:
    for given in (samples([1.1] * 5, status="failed"), [], samples([1.1] * 5)[1::2]):
        assert judge_slowdown(given, "new", "good", TEST).verdict == UNDECIDED


def test_what_copies_differ_by_over_a_session_is_no_slowdown() -> None:
    ratios = around(1.012, 0.001, 60)
    assert judge_slowdown(samples(ratios), "new", "good", SlowdownTest(0.02, 0.01)).verdict == SLOWER
    found = judge_slowdown(samples(ratios, INTERLEAVED), "new", "good", SlowdownTest(0.02, 0.01))
    assert found.verdict == UNDECIDED


def test_a_disturbed_run_counts_since_the_verdict_must_not_change_with_the_session_s_end() -> None:
    plain = samples(around(1.1, 0.01, 8))
    marked = [replace(item, flags="steal") if item.round == 3 else item for item in plain]
    again = [replace(item, round=9, rerun_of=3) for item in plain if item.round == 3]
    assert judge_slowdown([*marked, *again], "new", "good", TEST) == judge_slowdown(plain, "new", "good", TEST)


def test_time_until_the_data_are_on_disk_counts_where_it_was_measured() -> None:
    """A slowdown that real time hides: the data are written later."""
    plain = samples(around(1.0, 0.01, 8))
    flushed = [
        replace(item, phases=(replace(item.phases[0], flush=0.2 + 2.0 * (item.arm == "new")),)) for item in plain
    ]
    assert judge_slowdown(plain, "new", "good", TEST).metric == "real"
    found = judge_slowdown(flushed, "new", "good", TEST)
    assert (found.verdict, found.metric) == (SLOWER, "durable") and found.ratio == pytest.approx(1.196, rel=0.02)
    half = [item if item.arm == "new" else other for item, other in zip(flushed, plain, strict=True)]
    assert judge_slowdown(half, "new", "good", TEST).metric == "real", "one arm has no flush"
