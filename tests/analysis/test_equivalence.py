"""Equivalence is said by one rule: both one-sided tests, DECIDE_FROM rounds, and a control that passes the tests."""

import math
import random
from dataclasses import replace

import pytest

from kit.analysis.session.analyse import Analysis, analyse
from kit.analysis.session.ranking import RankRow
from kit.analysis.stats.estimate import EQUIVALENT, INCONCLUSIVE, Estimate, Interval, visible_ratio
from kit.analysis.stats.estimators import log_centre
from kit.extra.matrix.analysis.cell import MatrixCell
from kit.extra.matrix.analysis.mean import mean_of
from kit.extra.matrix.analysis.row import MatrixRow, rows_of
from kit.model.plan import DECIDE_FROM
from kit.model.sample import Phase, Sample
from kit.model.session import Request, Session
from kit.report.format.verdict import sentence
from kit.report.text.explain import explain
from tests.nights import ladder_session

ARMS = ("bare", "bare+control", "layer:overlay2", "layer:btrfs")
PAIRS = tuple((arm, "bare") for arm in ARMS[1:])


def session(rounds: int, control: float = 0.001, arms: tuple[str, ...] = ARMS) -> Session:
    """All arms take 10 s, give or take 0.1 %; ``control``: noise of its runs, up and down in turn."""
    dice = random.Random(3)
    samples = []
    for round_ in range(1, rounds + 1):
        for arm in arms:
            noise = control * (-1) ** round_ if "control" in arm else dice.gauss(0, 0.001)
            phase = Phase("build", "ok", real=10 * math.exp(noise), user=8.0, sys=1.0, flush=0.1)
            samples.append(Sample(arm, round_, "measured", "ok", float(round_), (phase,)))
    baselines = tuple(pair for pair in PAIRS if pair[0] in arms)
    return replace(
        ladder_session(), arms=arms, samples=tuple(samples), baselines=baselines, not_run=(), facts={},
        request=Request(rounds=4),
    )  # fmt: skip


def row_of(analysis: Analysis, arm: str) -> RankRow:
    return next(row for row in analysis.rankings[0].rows if row.arm == arm)


@pytest.mark.parametrize(
    ("low", "high", "n", "visible", "is_it"),
    [
        (0.98, 1.02, 3, 1.0, True), (0.98, 1.02, 2, 1.0, False), (0.98, 1.04, 9, 1.0, False),
        (0.98, 1.02, 9, 1.03, True), (0.98, 1.02, 9, 1.031, False), (None, None, 9, 1.0, False),
    ],
)  # fmt: skip
def test_the_rule(low: float | None, high: float | None, n: int, visible: float, is_it: bool) -> None:
    together = Interval(1.0, low, high, n)
    assert Estimate(1.0, low, high, n, together, visible=visible).equivalent(0.03) == is_it


def test_a_control_bounds_what_a_session_can_see_on_both_sides() -> None:
    assert visible_ratio(Interval(1.0, 0.9, 1.05, 4)) == pytest.approx(1 / 0.9)
    assert visible_ratio(Interval(1.0, 0.99, 1.05, 4)) == 1.05
    alone = visible_ratio(Interval(1.0, None, None, 1))
    assert math.isfinite(alone) and alone > 1e100


@pytest.mark.parametrize(("rounds", "verdict"), [(2, INCONCLUSIVE), (DECIDE_FROM, EQUIVALENT)])
@pytest.mark.parametrize("arms", [ARMS, tuple(arm for arm in ARMS if "control" not in arm)])
def test_a_session_cut_off_before_its_third_round_shows_no_equivalence(
    rounds: int, verdict: str, arms: tuple[str, ...]
) -> None:
    analysis = analyse(session(rounds, arms=arms))
    row = row_of(analysis, "layer:btrfs")
    assert row.against and row.against.ratio.bounded and row.against.ratio.bounded.within(0.03)
    assert row.verdict == verdict and row.against.ratio.withheld(0.03) == (verdict != EQUIVALENT)
    for item in analysis.comparisons:
        if (item.arm, item.metric) == ("layer:btrfs", "real"):
            assert ("equivalent" in sentence(item, 0.03)) == (verdict == EQUIVALENT)


@pytest.mark.parametrize(("noise", "verdict"), [(0.001, EQUIVALENT), (0.06, INCONCLUSIVE)])
def test_a_session_whose_control_fails_the_tests_shows_no_equivalence(noise: float, verdict: str) -> None:
    noisy = session(6, noise)
    analysis = analyse(noisy)
    assert row_of(analysis, "layer:btrfs").verdict == verdict
    is_it = verdict == EQUIVALENT
    assert any("equivalent to bare within ±3 %" in line for line in explain(noisy, analysis).answers) == is_it
    real = [item for item in analysis.comparisons if item.metric == "real" and not item.control]
    assert real and {item.equivalent(0.03) for item in real} == {is_it}
    (row,) = rows_of([noisy], "layer:overlay2", "", 0.03)
    cell = row.cell("layer:btrfs")
    assert cell and cell.verdict == verdict
    assert mean_of("layer:btrfs", [row], 1, 0.03).verdict == verdict


def test_a_noisy_control_leaves_significant_differences_alone() -> None:
    noisy = session(6, 0.06)
    slower = tuple(
        replace(item, phases=tuple(replace(phase, real=11 * (phase.real or 0) / 10) for phase in item.phases))
        if item.arm == "layer:btrfs"
        else item
        for item in noisy.samples
    )
    assert row_of(analyse(replace(noisy, samples=slower)), "layer:btrfs").verdict == "slower"


def test_a_mean_of_two_rounds_is_not_equivalent() -> None:
    def mean(n: int) -> str:
        ratio = Interval(1.0, 0.99, 1.01, n)
        cell = MatrixCell("layer:btrfs", "", log_centre(ratio, 5), ratio, n=n)
        return mean_of("layer:btrfs", [MatrixRow("one", "", "real", (cell,))], 1, 0.03).verdict

    assert (mean(2), mean(DECIDE_FROM)) == (INCONCLUSIVE, EQUIVALENT)
    alone = Interval(1.0, 0.99, 1.01, 2)
    assert Estimate(1.0, 0.99, 1.01, 2, alone).judge(0.03) == INCONCLUSIVE
