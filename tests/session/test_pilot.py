"""The pilot run."""

import pytest

from kit.core.deadline import Deadline
from kit.session.measure.pilot import LONGEST_PILOT, was_ended

DEADLINE = Deadline(100.0, "timed out")


@pytest.mark.parametrize(
    ("deadline", "timeout", "now", "expected"),
    [
        (DEADLINE, None, 100.1, True),
        (DEADLINE, 2 * LONGEST_PILOT, 100.1, True),
        (DEADLINE, None, 99.0, False),  # it ended by itself
        (DEADLINE, 5.0, 100.1, False),  # the user's own limit: it has failed
        (None, None, 100.1, False),
    ],
)
def test_a_pilot_run_that_is_ended_early_has_not_failed(
    deadline: Deadline | None, timeout: float | None, now: float, expected: bool
) -> None:
    assert was_ended(deadline, timeout, now) == expected
