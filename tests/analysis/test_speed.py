"""How noisy a machine is, from how fast it was."""

import math
import random

import pytest

from kit.analysis.speed import unsteadiness

Done = list[tuple[float, float]]


def worked(speed: list[float], seconds: float = 60.0) -> Done:
    """Units of work of 0.1 s at full speed, at the speed that each second has."""
    done, at = [], 5.0
    while at < 5.0 + seconds:
        took = 0.1 / speed[int(at - 5.0)]
        done.append((at, took))
        at += took
    return done


def test_a_steady_machine_is_not_noisy() -> None:
    found = unsteadiness([worked([1.0] * 61)] * 2, 0.5)
    assert found.whole == pytest.approx(0, abs=1e-9) and found.sliced == pytest.approx(0, abs=1e-9) and not found.noisy


def test_what_changes_in_ten_seconds_is_the_same_for_turns() -> None:
    speed = [1.2 if second // 10 % 2 else 1.0 for second in range(61)]
    found = unsteadiness([worked(speed), worked(speed)], 0.5)
    assert found.whole == pytest.approx(math.log(1.2), rel=0.5) and found.sliced < 0.03 and found.noisy


def test_what_changes_faster_than_turns_is_not_helped_by_them() -> None:
    random.seed(4)
    done: Done = []
    at = 5.0
    while at < 65:
        took = random.choice([0.02, 0.2])
        done.append((at, took))
        at += took
    found = unsteadiness([done], 0.5)
    assert found.sliced > 0.02
