"""Thresholds as assertions, without a session."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.analysis.runs.paired import COPIES
from kit.analysis.session.analyse import analyse
from kit.analysis.session.threshold import parse_threshold, rounds_note
from kit.extra.pytest_plugin.check import PenaltyError, check
from tests.nights import night

LIMIT = parse_threshold("layer:overlay2 < 10 %")


def test_kept_and_broken() -> None:
    check(LIMIT, analyse(night(1, 0.05)).comparisons)
    with pytest.raises(PenaltyError, match=r"does not hold\n  layer:overlay2 / bare, real of total, 4 rounds: \+18"):
        check(LIMIT, analyse(night(1, 0.2)).comparisons)


def test_undecided_warns_or_fails_and_says_how_many_rounds_would_tell() -> None:
    comparisons = analyse(night(3, 0.13, noise=0.03)).comparisons
    with pytest.warns(pytest.PytestWarning, match=r"(?s)the limit lies within the interval.*range 9 to 73\) would"):
        check(LIMIT, comparisons)
    with pytest.raises(PenaltyError, match="is undecided"):
        check(LIMIT, comparisons, undecided="fail")
    with pytest.warns(pytest.PytestWarning, match="one run has no interval"):
        check(LIMIT, analyse(night(3, 0.1, rounds=1)).comparisons)


@pytest.mark.parametrize(("rounds", "begins"), [(1, "1 round has no interval"), (2, "2 rounds seldom decide")])
def test_an_undecided_limit_names_the_cure_of_too_few_rounds(rounds: int, begins: str) -> None:
    (whole,) = LIMIT.find(analyse(night(3, 0.1, rounds=rounds)).comparisons)
    at_the_limit = replace(whole, ratio=1.1)  # no number of rounds decides
    with pytest.warns(pytest.PytestWarning, match=f"(?s){begins}.*: use 5 rounds or more$"):
        check(LIMIT, [at_the_limit])
    assert rounds_note(3) == ""


def test_rounds_that_have_run_are_not_said_to_decide() -> None:
    (whole,) = LIMIT.find(analyse(night(1, 0.05)).comparisons)
    near = replace(whole, ratio=1.108, low=1.09, high=1.126, n=10, borrowed=10)
    for spread, copies, says in ((0.03, 0.0, True), (0.01, 0.0, False), (0.03, COPIES, False)):
        with pytest.warns(pytest.PytestWarning, match="the limit lies within the interval") as caught:
            check(LIMIT, [replace(near, spread=spread, copies=copies)])
        assert ("would decide" in str(caught[0].message)) == says


def test_what_was_not_measured_is_no_pass() -> None:
    with pytest.raises(PenaltyError, match="not measured; there are: layer:overlay2 build"):
        check(parse_threshold("layer:btrfs < 10 %"), analyse(night(1, 0.05)).comparisons)
    with pytest.raises(pytest.UsageError, match="'warn' or 'fail'"):
        check(LIMIT, (), undecided="perhaps")


def test_a_comparison_prints_its_interval() -> None:
    found = analyse(night(1, 0.2)).comparisons[-1]
    assert repr(found).startswith("<layer:overlay2 / bare, ") and "rounds>" in repr(found)
    whole = LIMIT.find(analyse(night(1, 0.2)).comparisons)[0]
    assert repr(replace(whole, ratio=1.2, low=1.1, high=1.3)) == (
        "<layer:overlay2 / bare, real of total: 1.200 (1.100–1.300), 4 rounds>"
    )
    assert "no interval" in repr(replace(whole, low=None)) and "no ratio" in repr(replace(whole, ratio=None))
