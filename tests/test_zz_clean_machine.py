"""Last of all: nothing of ours is left on the machine."""

from tests.conftest import left_on_machine


def test_nothing_is_left() -> None:
    assert left_on_machine() == []
