"""How long sessions took: by when their runs began, without the time that nobody measured in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.analysis.session.timing import arm_seconds, count_rounds, elapsed, round_seconds
from kit.model.session import Session
from tests.nights import night

LENGTH = 20.0


def timed(rounds: int = 6, pause: float = 0.0) -> Session:
    """A round begins every LENGTH seconds; ``pause``: seconds more before the fifth."""
    made = night(1, 0.1, noise=0.0, rounds=rounds)
    samples = tuple(
        replace(item, started=1e9 + LENGTH * item.round + pause * (item.round > 4)) for item in made.samples
    )
    return replace(made, samples=samples)


def test_a_pause_counts_for_nothing() -> None:
    without, resumed = elapsed(timed()), elapsed(timed(pause=86400.0))
    assert without == pytest.approx(6 * LENGTH) and resumed == pytest.approx(5 * LENGTH)  # one gap is unknown
    assert round_seconds(timed(pause=86400.0)) == round_seconds(timed()) == LENGTH


def test_a_round_of_fewer_arms_takes_their_share() -> None:
    made = timed()  # bare takes 11 of the 23 seconds of runs
    assert round_seconds(made, made.arms) == pytest.approx(LENGTH)
    assert round_seconds(made, ["bare"]) == pytest.approx(LENGTH * 11 / 23)
    rarely = [sample for sample in made.samples if sample.arm == "bare" or sample.round <= 3]
    dropped = replace(made, samples=tuple(rarely))  # a round had 11 + 12 / 2 seconds of runs on average
    assert round_seconds(dropped, ["bare"]) == pytest.approx(LENGTH * 11 / 17)


def test_a_session_of_one_round_took_as_long_as_its_runs() -> None:
    assert round_seconds(timed(rounds=1)) == elapsed(timed(rounds=1)) == pytest.approx(10 + 11 + 2 * 1)
    assert elapsed(night(1, 0.1)) is None and round_seconds(night(1, 0.1)) is None


def test_reruns_are_no_rounds_and_failed_runs_took_their_time() -> None:
    made = timed()
    again = [replace(item, round=7, rerun_of=2) for item in made.samples if item.round == 2]
    failed = [replace(item, status="failed", phases=item.phases[:1]) for item in made.samples if item.round == 1]
    more = replace(made, samples=(*made.samples, *again, *failed))
    assert count_rounds(more) == 6
    assert arm_seconds(more, "bare") == pytest.approx((6 + 1) * 11 + 10)
