"""What machines are called in lists."""

import pytest

from kit.report.format.units import machine_name


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({}, ""),
        ({"machine": "5f3a"}, "5f3a"),
        ({"machine": "5f3a", "worker": "b1"}, "b1"),
        ({"machine": "5f3a, 77", "worker": "b1, b2, b3"}, "b1, b2, b3"),
        ({"machine": "5f3a, 77", "worker": "b1, b2, b3, b4"}, "b1, b2 and 2 more"),
    ],
)
def test_a_fleets_machine_has_the_name_that_its_user_knows(facts: dict[str, str], name: str) -> None:
    assert machine_name(facts) == name
