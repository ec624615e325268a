"""Numbers as people read them."""

import pytest

from kit.report import units


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
