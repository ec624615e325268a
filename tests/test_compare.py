from dataclasses import replace

import pytest

from kit.compare import Comparison, compare, not_comparable
from kit.runs import Runs
from kit.sample import Phase, Sample, total


def sample(arm: str, block: int, *reals: float, **changes: object) -> Sample:
    phases = tuple(Phase(f"p{i}", "ok", real=real, user=real / 2, sys=0.0) for i, real in enumerate(reals))
    made = Sample(arm, block, "measured", "ok", 0.0, phases, digests=(("image", "a"),))
    return replace(made, **changes)  # type: ignore[arg-type]


def find(found: tuple[Comparison, ...], metric: str, phase: str) -> Comparison:
    return next(item for item in found if (item.metric, item.phase) == (metric, phase))


PAIR = [("layer:overlay2", "bare")]


def test_compares_phases_and_total_within_blocks() -> None:
    samples = [sample("bare", b, 1.0 * b, 3.0 * b) for b in (1, 2, 3)]
    samples += [sample("layer:overlay2", b, 1.5 * b, 3.5 * b) for b in (1, 2, 3)]
    found = compare(samples, PAIR)
    assert find(found, "real", "p0").ratio == pytest.approx(1.5)
    whole = find(found, "real", "total")
    assert whole.ratio == pytest.approx(1.25)
    assert (whole.n, whole.verdict) == (3, "more")
    assert whole.low == pytest.approx(1.25)
    assert whole.difference == pytest.approx(2.0)


def test_a_zero_leaves_no_ratio_but_a_difference() -> None:
    found = compare([sample("bare", 1, 1.0), sample("layer:overlay2", 1, 2.0)], PAIR)
    item = find(found, "sys", "p0")
    assert item.ratio is None
    assert item.difference == 0.0
    assert find(found, "real", "p0").verdict == "no interval"


def test_warmups_failures_and_lone_blocks_are_left_out() -> None:
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
    assert item.verdict == "not detected"
    assert item.detectable is not None and item.detectable > 1.05


def test_total_lacks_what_a_phase_lacks() -> None:
    whole = total([Phase("a", "ok", real=1.0, flush=2.0, max_rss=5.0), Phase("b", "ok", real=2.0, max_rss=7.0)])
    assert (whole.real, whole.flush, whole.max_rss) == (3.0, None, 7.0)
