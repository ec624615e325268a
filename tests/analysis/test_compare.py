import math
from dataclasses import replace

import numpy as np
import pytest

from kit.analysis.runs.compare import Comparison, compare, not_comparable
from kit.analysis.runs.paired import COPIES
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.ranking import rank
from kit.model.sample import Phase, Sample, total


def sample(arm: str, round_: int, *reals: float, **changes: object) -> Sample:
    phases = tuple(Phase(f"p{i}", "ok", real=real, user=real / 2, sys=0.0) for i, real in enumerate(reals))
    made = Sample(arm, round_, "measured", "ok", 0.0, phases, digests=(("image", "a"),))
    return replace(made, **changes)  # type: ignore[arg-type]


def find(found: tuple[Comparison, ...], metric: str, phase: str) -> Comparison:
    return next(item for item in found if (item.metric, item.phase) == (metric, phase))


PAIR = [("layer:overlay2", "bare")]


def test_compares_phases_and_total_within_rounds() -> None:
    samples = [sample("bare", b, 1.0 * b, 3.0 * b) for b in (1, 2, 3)]
    samples += [sample("layer:overlay2", b, 1.5 * b, 3.5 * b) for b in (1, 2, 3)]
    found = compare(samples, PAIR)
    assert find(found, "real", "p0").ratio == pytest.approx(1.5)
    whole = find(found, "real", "total")
    assert whole.ratio == pytest.approx(1.25)
    assert (whole.n, whole.verdict) == (3, "more")
    assert whole.low == pytest.approx(1.25)
    assert whole.difference == pytest.approx(2.0)


def ratio_of(*pairs: tuple[float, float]) -> Comparison:
    samples = [sample("layer:overlay2", round_, arm) for round_, (arm, _) in enumerate(pairs, 1)]
    samples += [sample("bare", round_, base) for round_, (_, base) in enumerate(pairs, 1)]
    return find(compare(samples, PAIR), "real", "p0")


def test_a_ratio_ignores_what_a_round_shares() -> None:
    steady = ratio_of((1.1, 1.0), (1.2, 1.1), (1.3, 1.2))
    drifting = ratio_of((1.1, 1.0), (12.0, 11.0), (130.0, 120.0))
    assert steady.ratio == pytest.approx(drifting.ratio)
    assert steady.low == pytest.approx(drifting.low)


def test_a_ratio_is_symmetrical() -> None:
    pairs = [(2.0, 1.0), (1.9, 1.1), (2.2, 1.0)]
    there, back = ratio_of(*pairs), ratio_of(*((b, a) for a, b in pairs))
    assert there.ratio and there.low and back.ratio and back.high
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high)


def test_intervals_of_interleaved_runs_include_copies() -> None:
    turns = {"digests": (("image", "a"), ("run order", "interleaved"))}
    arms = [sample("layer:overlay2", round_, 1.02, **turns) for round_ in range(1, 6)]
    found = compare([*arms, *(sample("bare", round_, 1.0, **turns) for round_ in range(1, 6))], PAIR)
    whole, real = ratio_of(*[(1.02, 1.0)] * 5), find(found, "real", "p0")
    assert whole.verdict == "more" and whole.low == pytest.approx(1.02)
    assert real.low and real.high and real.low_all == pytest.approx(real.low)
    assert math.log(real.high / real.low) / 2 == pytest.approx(1.96 * COPIES, rel=0.002)
    assert real.difference_low == pytest.approx(0.02 - 1.96 * COPIES, abs=1e-4)
    assert find(found, "user", "p0").low == pytest.approx(real.low)


def test_no_number_of_rounds_decides_what_copies_may_differ_by() -> None:
    turns = {"digests": (("image", "a"), ("run order", "interleaved"))}
    arms = [sample("layer:overlay2", round_, 1.1, **turns) for round_ in range(1, 6)]
    bares = [sample("bare", round_, 1.0, **turns) for round_ in range(1, 6)]
    interleaved = find(compare([*arms, *bares], PAIR), "real", "p0")
    assert (interleaved.copies, ratio_of(*[(1.1, 1.0)] * 5).copies) == (COPIES, 0.0)
    near = replace(interleaved, ratio=1.108, n=10, spread=0.01, borrowed=10)
    assert near.rounds_to_tell(1.10) is None
    sequential = replace(near, copies=0.0).rounds_to_tell(1.10)
    assert sequential and sequential[1] == 9
    far, without = near.rounds_to_tell(1.09), replace(near, copies=0.0).rounds_to_tell(1.09)
    assert far and without and far[1] > without[1]


def test_the_ranking_and_the_verdict_call_the_same_arm_equivalent() -> None:
    arms = ("layer:overlay2", "bare")
    seen = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        made = [sample(arm, round_, math.exp(rng.normal(0, 0.02))) for round_ in range(1, 6) for arm in arms]
        found, (ranking,) = find(compare(made, PAIR), "real", "p0"), rank(Runs(made), arms)
        (row,) = (row for row in ranking.rows if row.arm == "bare")
        assert row.against and row.against.ratio.equivalent(0.03) == found.equivalent(0.03)
        seen.append(found.equivalent(0.03))
    assert 5 < sum(seen) < 35


@pytest.mark.parametrize(
    ("simultaneous", "bound", "margin", "is_it"),
    [
        ((0.9705, 1.02), (None, None), 0.03, False),  # 1 / 1.03 is 0.9709
        ((0.971, 1.03), (None, None), 0.03, True),  # as stored: without the bound of one-sided tests
        ((0.09, 0.11), (0.095, 0.105), 1.0, False),
        ((0.51, 1.9), (0.6, 1.8), 1.0, True),
        ((0.95, 1.02), (0.975, 1.01), 0.03, True),
        ((None, None), (None, None), 0.03, False),
    ],
)
def test_the_limits_of_equivalence_are_the_same_for_either_arm_as_reference(
    simultaneous: tuple[float | None, float | None],
    bound: tuple[float | None, float | None],
    margin: float,
    is_it: bool,
) -> None:
    (low_all, high_all), (low, high) = simultaneous, bound
    pairs = [(1.1, 1.0), (1.2, 1.1), (1.3, 1.2)]
    found = replace(ratio_of(*pairs), low_all=low_all, high_all=high_all, low_bound=low, high_bound=high)
    assert found.equivalent(margin) == is_it


def test_the_published_figures_of_moby_2891() -> None:
    bare, mapper, aufs = 29 * 60 + 59.190, 32 * 60 + 21.074, 37 * 60 + 14.612
    found = ratio_of((mapper, bare))
    assert found.ratio == pytest.approx(1.079, abs=0.0005)
    assert ratio_of((aufs, bare)).ratio == pytest.approx(1.242, abs=0.0005)
    assert (found.low, found.detectable, found.rounds_to_tell(1.02)) == (None, None, None)


def test_two_wildly_different_runs_do_not_overflow() -> None:
    found = ratio_of((1e-99, 1.0), (1e99, 1.0))
    assert found.high is not None and 1e300 < found.high < math.inf
    assert found.low == 0.0


def test_a_zero_leaves_no_ratio_but_a_difference() -> None:
    found = compare([sample("bare", 1, 1.0), sample("layer:overlay2", 1, 2.0)], PAIR)
    item = find(found, "sys", "p0")
    assert item.ratio is None
    assert item.difference == 0.0
    assert find(found, "real", "p0").verdict == "no interval"


def test_warmups_failures_and_lone_rounds_are_left_out() -> None:
    samples = [
        sample("bare", 1, 1.0),
        sample("layer:overlay2", 1, 2.0),
        sample("bare", 0, 9.0, kind="warmup"),
        sample("layer:overlay2", 0, 1.0, kind="warmup"),
        sample("bare", 2, 1.0),
        sample("layer:overlay2", 2, 9.0, status="failed"),
        sample("layer:overlay2", 3, 9.0),
    ]
    item = find(compare(samples, PAIR), "real", "p0")
    assert item.ratio == pytest.approx(2.0)
    assert item.n == 1


def test_samples_with_different_inputs_are_not_compared() -> None:
    samples = [sample("bare", 1, 1.0), sample("layer:overlay2", 1, 2.0, digests=(("image", "b"),))]
    assert compare(samples, PAIR) == ()
    assert "image differs from bare" in not_comparable(Runs(samples), PAIR)[0]


def test_no_detected_difference_names_what_would_have_been_seen() -> None:
    samples = [sample("bare", b, 1.0 + b % 2 / 10) for b in range(1, 5)]
    samples += [sample("layer:overlay2", b, 1.0 + (b + 1) % 2 / 10) for b in range(1, 5)]
    item = find(compare(samples, PAIR), "real", "p0")
    assert item.verdict == "not significant"
    assert item.detectable is not None and item.detectable > 1.05


def test_total_lacks_what_a_phase_lacks() -> None:
    whole = total([Phase("a", "ok", real=1.0, flush=2.0, max_rss=5.0), Phase("b", "ok", real=2.0, max_rss=7.0)])
    assert (whole.real, whole.flush, whole.max_rss) == (3.0, None, 7.0)


def test_where_a_covariate_moves_the_ratio_the_seconds_move_with_it() -> None:
    rng = np.random.default_rng(1)
    made = []
    for round_ in range(1, 7):
        for arm, slower in (("bare", 0.0), ("layer:overlay2", 0.03), ("layer:vfs", 0.0), ("layer:btrfs", 0.0)):
            speed = float(rng.normal(0, 0.02)) - (0.06 if arm == "layer:overlay2" else 0.0)  # it met a faster machine
            real = 10 * math.exp(slower + speed + float(rng.normal(0, 0.002)))
            spin = math.exp(speed)
            made.append(sample(arm, round_, real, memory_before=spin, memory_after=spin))
    pairs = [(arm, "bare") for arm in ("layer:overlay2", "layer:vfs", "layer:btrfs")]
    found = next(item for item in compare(made, pairs, ["real"]))
    base = float(np.mean([item.phases[0].real for item in made if item.arm == "bare" and item.phases[0].real]))
    assert (found.covariate, found.verdict) == ("memory", "more")
    assert found.ratio == pytest.approx(math.exp(0.03), abs=0.005)
    assert found.difference < 0  # the seconds as they were
    assert found.adjusted is not None and found.adjusted / base == pytest.approx(found.ratio, abs=0.005)


def test_from_ten_rounds_on_the_typical_ratio_and_that_of_all_stand_side_by_side() -> None:
    nine = ratio_of(*[(1.1 + round_ / 1000, 1.0) for round_ in range(9)])
    assert (nine.untrimmed, nine.outliers) == (None, False)
    steady = ratio_of(*[(1.1 + round_ / 1000, 1.0) for round_ in range(12)])
    assert steady.untrimmed == pytest.approx(steady.ratio, abs=0.001)
    assert not steady.outliers
    hit = ratio_of(*[(1.1 + round_ / 1000, 1.0) for round_ in range(11)], (2.2, 1.0))
    assert hit.ratio == pytest.approx(1.106, abs=0.002)
    assert hit.untrimmed is not None and hit.untrimmed > 1.15
    assert hit.outliers


def test_a_bad_run_is_in_the_interval_of_the_seconds_where_it_is_in_their_mean() -> None:
    """From ten rounds on the typical ratio leaves it out. Seconds are the mean of all rounds; arms that stopped early
    keep their intervals."""
    rng = np.random.default_rng(1)
    arms = ("bare", "layer:overlay2", "layer:vfs", "layer:btrfs", "layer:zfs")
    seconds = {arm: 10 * np.exp(rng.normal(0, 0.01, 3 if arm == "layer:zfs" else 10)) for arm in arms}
    seconds["layer:overlay2"][6] = 40.0
    made = [sample(arm, round_, float(real)) for arm in arms for round_, real in enumerate(seconds[arm], 1)]
    found = {item.arm: item for item in compare(made, [(arm, "bare") for arm in arms[1:]], ["real"])}
    halves = {arm: (item.difference_high or 0.0) - item.difference for arm, item in found.items()}
    bad, differences = found["layer:overlay2"], seconds["layer:overlay2"] - seconds["bare"]
    error = float(differences.std(ddof=1)) / math.sqrt(10)
    assert bad.ratio == pytest.approx(1, abs=0.02) and bad.difference == pytest.approx(3, abs=0.1)
    assert error == pytest.approx(3, abs=0.1) and halves["layer:overlay2"] == pytest.approx(2.26 * error, rel=0.2)
    assert bad.verdict_all == "not significant" and 0 < halves["layer:btrfs"] < 0.3 and 0 < halves["layer:zfs"] < 0.6
