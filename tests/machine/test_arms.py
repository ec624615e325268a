"""No test of the engine suite leaves out an engine, a driver, a placement, a filesystem or an option."""

from collections.abc import Sequence

import pytest

from tests.machine.arms import ARMS, TESTS, arms_of, traits


def everything(arms: Sequence[str]) -> set[str]:
    return {trait for arm in arms for trait in traits(arm)}


def test_an_arm_is_made_of_engine_driver_placement_filesystem_and_options() -> None:
    assert set(traits("layer:podman/overlay@xfs+control")) == {
        "engine podman", "driver overlay", "placement layer", "filesystem xfs", "+control",
    }  # fmt: skip


@pytest.mark.parametrize("test", TESTS)
def test_each_test_meets_all_that_arms_are_made_of(test: str) -> None:
    assert everything(arms_of(test)) == everything(ARMS)


def test_the_first_meets_every_arm_the_others_few_and_not_the_same() -> None:
    first, *others = (tuple(arms_of(test)) for test in TESTS)
    assert first == ARMS
    assert max(map(len, others)) < len(ARMS) * 2 / 3
    assert len(set(others)) > 1
