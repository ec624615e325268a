"""Numbers as people read them."""

import pytest

from kit.core.quantity import shown_duration
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
    [(0.3, "0.3 s", "about 5 s"), (44.0, "44 s", "about 45 s"), (500.0, "8 min 20 s", "about 8 min"),
     (600.0, "10 min", "about 10 min"), (7530.0, "2 h 05 min", "about 126 min")],
)  # fmt: skip
def test_durations(seconds: float, exact: str, coarse: str) -> None:
    assert (shown_duration(seconds), units.about(seconds)) == (exact, coarse)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(599.96, "600.0 s"), (600.0, "10 min 00.0 s"), (1259.97, "21 min 00.0 s"), (725.12, "12 min 05.1 s")],
)
def test_a_measured_time_has_the_units_of_a_duration(value: float, shown: str) -> None:
    assert units.seconds(value) == shown
