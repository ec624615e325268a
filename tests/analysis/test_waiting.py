"""What interleaving hides of waits, by formula and by freezing a simulated workload."""

import random

import pytest

from kit.analysis.runs.waiting import LEAST_SLICES, MOST_HIDDEN, Waiting, slice_length, waiting


def test_waits_from_looks() -> None:
    found = waiting([False] * 8 + [True] * 2, 10.0)
    assert found == Waiting(0.2, 1.0)
    assert waiting([False, True, False, True, True, False], 6.0).remaining == pytest.approx((1 + 4) / 2 / 3)
    assert waiting([], 0.0) == waiting([False] * 5, 1.0) == Waiting(0.0, 0.0)


@pytest.mark.parametrize(("work", "wait", "length"), [(0.9, 0.1, 0.3), (0.05, 0.02, 0.2), (4.0, 1.0, 0.5)])
def test_bound_holds_for_a_simulated_workload(work: float, wait: float, length: float) -> None:
    """A workload that works and waits in turn, frozen at random moments for longer than any wait."""
    rng, cycles = random.Random(1), 4000
    own = 0.0  # on the arm's clock
    rest = length
    for _ in range(cycles):
        left = rng.expovariate(1 / work)  # work stops with the slice
        while left > rest:
            own, left, rest = own + rest, left - rest, length
        own, rest = own + left, rest - left
        hidden = wait >= rest  # the slice ends in the wait: what is left of it passes while others run
        own, rest = (own + rest, length) if hidden else (own + wait, rest - wait)
    truth = cycles * (work + wait)
    bound = Waiting(wait / (work + wait), wait / 2).hidden(length)
    assert 0 < 1 - own / truth <= bound * 1.1


def test_slices() -> None:
    quiet = Waiting(0.0, 0.0)
    assert [slice_length((seconds, quiet)) for seconds in (0.4, 1, 2, 5, 10, 80)] == [None, 0.1, 0.1, 0.1, 0.2, 0.5]
    some = Waiting(0.1, 0.03)
    length = slice_length((80, some))
    assert length == 0.6 and some.hidden(length) <= MOST_HIDDEN and 80 / length > LEAST_SLICES
    assert slice_length((10, Waiting(0.2, 1.0))) is None
