"""Intervals in one style, rounded by what they make doubtful."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.analysis.stats.estimate import Interval
from kit.report.format.interval import amount_interval, percent_interval, share_interval


def interval(estimate: float, low: float | None, high: float | None) -> Interval:
    return Interval(estimate, low, high, 3)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "said"),
    [
        (1.056, 1.0312, 1.0818, "+5.6 % [+3.1, +8.2]"),
        (0.908, 0.609, 1.354, "-9 % [-39, +35]"),
        (0.9786, 0.9401, 1.0203, "-2.1 % [-6.0, +2.0]"),
        (2.361, 2.284, 2.448, "+136 % [+128, +145]"),
        (2.408, 2.373, 2.443, "+141 % [+137, +144]"),
        (1.0103, 1.0080, 1.0127, "+1.03 % [+0.80, +1.27]"),
        (1.21, 0.5, 5.9, "+20 % [-50, +490]"),
        (1.21, 0.5, 8178174043619350528.0, "+20 % [-50, > 100,000-fold]"),
        (0.9999, 0.9899, 1.0099, "+0.0 % [-1.0, +1.0]"),
        (1.25, 1.25, 1.25, "+25.00 % [+25.00, +25.00]"),
        (1.056, None, None, "+5.6 % (no interval)"),
        (None, None, None, "no ratio"),
    ],
)
def test_a_change_keeps_the_digits_that_its_interval_allows(
    ratio: float | None, low: float | None, high: float | None, said: str
) -> None:
    assert percent_interval(None if ratio is None else interval(ratio, low, high)) == said


def test_shares_and_amounts_have_the_same_style() -> None:
    assert share_interval(interval(0.0192, 0.0061, 0.0323)) == "+1.9 % [+0.6, +3.2]"
    assert amount_interval(interval(0.2104, 0.1494, 0.2714)) == "+0.21 s [+0.15, +0.27]"
    assert amount_interval(interval(1234.0, 1100.0, 1368.0), "MB") == "+1,230 MB [+1,100, +1,370]"
    assert amount_interval(interval(0.2104, None, None), "") == "+0.210 (no interval)"


@given(st.floats(1e-6, 1e6), st.floats(0, 1e6), st.floats(0, 1e300))
def test_no_figure_fails(ratio: float, below: float, above: float) -> None:
    wide = interval(ratio, max(ratio - below, 0.0), ratio + above)
    assert percent_interval(wide).endswith("]") and amount_interval(wide).endswith("]")


def number(text: str) -> float:
    return float(text.replace(",", ""))


@given(st.floats(-100, 100), st.floats(0, 100), st.floats(0, 100))
def test_no_estimate_is_printed_outside_its_interval(estimate: float, below: float, above: float) -> None:
    """Of a step of the ladder, ``-0.001 s`` once stood before an interval of ``+0.00`` to ``+0.00``."""
    said = amount_interval(interval(estimate, estimate - below, estimate + above))
    middle, _, ends = said.partition(" s [")
    low, high = ends.removesuffix("]").split(", ")
    assert number(low) <= number(middle) <= number(high)


def test_a_small_step_keeps_its_sign_and_its_digits() -> None:
    assert amount_interval(interval(-0.001, -0.004, 0.002)) == "-0.001 s [-0.004, +0.002]"
