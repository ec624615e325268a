"""Last of all: nothing of ours is left on the machine."""

import pytest

from tests.leftovers import left_on_machine


@pytest.mark.machine
@pytest.mark.last
def test_nothing_is_left() -> None:
    assert left_on_machine() == []
