"""Numbers as people read them."""

import pytest

from kit.report.format import units


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (1.056, "+5.6 %"),
        (1.0, "+0.0 %"),
        (0.9999, "+0.0 %"),
        (286.0, "286-fold"),
        (8178174043619350528.0, "> 100,000-fold"),
    ],
)
def test_a_ratio_is_a_change_and_no_endless_row_of_figures(ratio: float, shown: str) -> None:
    assert units.percent(ratio) == shown


@pytest.mark.parametrize(
    ("seconds", "exact", "coarse"),
    [(0.3, "0 s", "about 5 s"), (44.0, "44 s", "about 45 s"), (500.0, "8 min 20 s", "about 8 min"),
     (600.0, "10 min", "about 10 min"), (7530.0, "2 h 05 min", "about 126 min")],
)  # fmt: skip
def test_durations(seconds: float, exact: str, coarse: str) -> None:
    assert (units.duration(seconds), units.about(seconds)) == (exact, coarse)
