import math
from zlib import crc32

import numpy as np
import pytest

from kit.analysis.runs.paired import COPIES
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.ladder import FLUSH, READ, RUNTIME, WRITE, Ladder, climb, rungs
from kit.model.sample import Phase, Sample

ARMS = ("bare", "runtime:overlay2", "bind:overlay2", "layer:overlay2")
PAIRS = [(arm, "bare") for arm in ARMS[1:]]
COST = {"bare": 10.0, "runtime:overlay2": 10.1, "bind:overlay2": 10.7, "layer:overlay2": 11.2}


def run(arm: str, round_: int) -> Sample:
    real = COST[arm] * (1 + round_ / 100) + crc32(f"{arm} {round_}".encode()) % 7 / 100
    flush = 0.5 + (0.3 if arm.startswith("layer") else 0.0) + round_ / 200
    phases = tuple(
        Phase(name, "ok", real, real, 0.5, real, 0.6, outside=0.1 + round_ / 50, flush=flush, flush_cpu=0.02)
        for name in ("build", "clean")
    )
    return Sample(arm, round_, "measured", "ok", 0.0, phases)


def chain(arm: str, others: tuple[str, ...]) -> dict[str, str]:
    return {name: step for name, step in rungs(arm, "bare", others) if step}


def whole(found: tuple[Ladder, ...], cost: str) -> Ladder:
    return next(item for item in found if (item.phase, item.cost) == ("total", cost))


def test_each_rung_adds_one_thing() -> None:
    assert chain("layer:overlay2", ARMS) == {
        "runtime:overlay2": RUNTIME,
        "bind:overlay2": READ,
        "layer:overlay2": WRITE,
    }


def test_missing_rungs_join_their_steps() -> None:
    assert chain("layer:vfs", (*ARMS, "layer:vfs")) == {"runtime:overlay2": RUNTIME, "layer:vfs": f"{READ} and {WRITE}"}
    without_runtime = ("bare", "bind:overlay2", "layer:overlay2")
    assert chain("layer:overlay2", without_runtime) == {
        "bind:overlay2": f"{RUNTIME} and {READ}",
        "layer:overlay2": WRITE,
    }
    assert chain("layer:overlay2", ("bare", "layer:overlay2")) == {}
    assert chain("layer:overlay2", ("bare", "volume:overlay2", "layer:overlay2"))["volume:overlay2"]


def test_the_runtime_of_another_filesystem_is_no_rung() -> None:
    assert chain("layer:overlay2@xfs", ("bare@xfs", "runtime:overlay2", "layer:overlay2@xfs")) == {}


def test_options_split_the_runtime_tax() -> None:
    open_ = "runtime:overlay2+seccomp=unconfined"
    bottom = "runtime:overlay2+cgroup=none+seccomp=unconfined"
    assert chain("runtime:overlay2", ("bare", bottom, open_, "runtime:overlay2")) == {
        bottom: "runtime tax: namespaces",
        open_: "runtime tax: cgroup",
        "runtime:overlay2": "runtime tax: seccomp",
    }
    assert chain("layer:overlay2", (open_, *ARMS)) == {
        open_: "runtime tax: namespaces and cgroup",
        "runtime:overlay2": "runtime tax: seccomp",
        "bind:overlay2": READ,
        "layer:overlay2": WRITE,
    }
    other = "runtime:overlay2+cgroup=none"
    assert chain("runtime:overlay2", ("bare", other, "runtime:overlay2")) == {
        other: "runtime tax: namespaces and seccomp",
        "runtime:overlay2": "runtime tax: cgroup",
    }


def test_labels_of_imported_figures_have_no_ladder() -> None:
    assert rungs("devicemapper", "bare", ("bare", "devicemapper", "a b")) == ()


@pytest.mark.parametrize("cost", ["real", "cpu", "outside", "cpu_total"])
def test_steps_add_up_exactly_in_every_phase_and_cost(cost: str) -> None:
    runs = Runs([run(arm, round_) for arm in ARMS for round_ in (1, 2, 3, 4)])
    found = [item for item in climb(runs, PAIRS, ARMS) if item.cost == cost]
    assert {item.phase for item in found} == {"build", "clean", "total"}
    for item in found:
        assert sum(step.seconds.estimate for step in item.steps) == pytest.approx(item.whole.seconds.estimate, abs=1e-9)
        shares = [step.share.estimate for step in item.steps if step.share]
        assert item.whole.share is not None
        assert sum(shares) == pytest.approx(item.whole.share.estimate, abs=1e-9)
        assert item.n == 4


def test_cpu_of_the_build_and_outside_cpu_add_up_to_the_total() -> None:
    found = climb(Runs([run(arm, round_) for arm in ARMS for round_ in (1, 2, 3)]), PAIRS, ARMS)
    cpu, elsewhere, total = (whole(found, cost).whole.seconds.estimate for cost in ("cpu", "outside", "cpu_total"))
    assert cpu + elsewhere == pytest.approx(total, abs=1e-9)
    shares = [whole(found, cost).whole.share for cost in ("cpu", "outside", "cpu_total")]
    in_tree, beside, both = (share.estimate for share in shares if share)
    assert in_tree + beside == pytest.approx(both, abs=1e-9)  # all of the baseline's total CPU


def test_the_flush_debt_is_a_step_of_its_own() -> None:
    found = climb(Runs([run(arm, round_) for arm in ARMS for round_ in (1, 2, 3)]), PAIRS, ARMS)
    steps = {step.name: step.seconds for step in whole(found, "real").steps}
    assert list(steps) == [RUNTIME, READ, WRITE, FLUSH]
    assert steps[FLUSH].estimate == pytest.approx(0.6)  # 0.3 in each of two phases
    assert steps[READ].estimate == pytest.approx(2 * 0.6 * 1.02, abs=0.2)


def test_rounds_that_lack_a_rung_do_not_count() -> None:
    samples = [run(arm, round_) for arm in ARMS for round_ in (1, 2, 3)]
    lacking = [item for item in samples if (item.arm, item.round) != ("bind:overlay2", 2)]
    assert {item.n for item in climb(Runs(lacking), PAIRS, ARMS)} == {2}


def test_a_baseline_of_zero_has_seconds_but_no_share() -> None:
    samples = [
        Sample(arm, round_, "measured", "ok", 0.0, (Phase("p", "ok", 1.0, 0.0, 0.0, outside=0.0, flush_cpu=0.0),))
        for arm in ARMS
        for round_ in (1, 2)
    ]
    found = [item for item in climb(Runs(samples), PAIRS, ARMS) if item.cost == "outside"]
    assert found[0].whole.share is None
    assert found[0].whole.seconds.estimate == 0.0


def noisy(rng: np.random.Generator, rounds: int, costs: dict[str, float]) -> Ladder:
    samples = [
        Sample(arm, round_, "measured", "ok", 0.0,
               (Phase("p", "ok", cost + float(rng.normal(0, 0.3)), flush=0.5 + float(rng.normal(0, 0.05))),))
        for round_ in range(1, rounds + 1)
        for arm, cost in costs.items()
    ]  # fmt: skip
    return next(item for item in climb(Runs(samples), PAIRS, ARMS) if item.cost == "real")


def test_the_most_expensive_step_is_named_only_where_it_is_significant() -> None:
    rng = np.random.default_rng(1)
    equal = dict(zip(ARMS, (10.0, 10.0, 10.6, 11.2), strict=True))
    found = [noisy(rng, 4, equal).largest for _ in range(60)]
    assert sum(len(steps) == 1 for steps in found) <= 6  # neither is dearer: 5 % and chance
    several = [{step.name for step in steps} for steps in found if len(steps) > 1]
    assert several and all({READ, WRITE} & names for names in several)
    clear = noisy(rng, 5, dict(zip(ARMS, (10.0, 10.1, 10.2, 14.0), strict=True))).largest
    assert [step.name for step in clear] == [WRITE]
    nothing = noisy(np.random.default_rng(2), 3, dict.fromkeys(ARMS, 10.0)).largest
    assert nothing == ()


def test_few_sessions_of_equal_arms_have_a_step_that_is_simultaneously_significant() -> None:
    rng = np.random.default_rng(4)
    sessions, alone, together = 200, 0, 0
    for _ in range(sessions):
        found = noisy(rng, 4, dict.fromkeys(ARMS, 10.0))
        for step in (*found.steps, found.whole):
            assert step.share and step.share_all and step.share.low is not None and step.share_all.low is not None
            assert step.share_all.low < step.share.low and step.share_all.estimate == step.share.estimate
        alone += any(step.share.leaves_out(0.0) for step in found.steps if step.share)
        together += any(step.share_all.leaves_out(0.0) for step in found.steps if step.share_all)
    assert together < alone and together / sessions < 0.05 + 3 * (0.05 * 0.95 / sessions) ** 0.5


def by_turns(turns: bool, costs: dict[str, float]) -> Ladder:
    digests = (("run order", "interleaved"),) if turns else ()
    samples = [
        Sample(arm, round_, "measured", "ok", 0.0, (Phase("p", "ok", cost + round_ / 100, flush=0.5),), digests=digests)
        for round_ in range(1, 6)
        for arm, cost in costs.items()
    ]
    return next(item for item in climb(Runs(samples), PAIRS, ARMS) if item.cost == "real")


def test_steps_of_interleaved_runs_allow_for_copies() -> None:
    near = dict(zip(ARMS, (10.0, 10.0, 10.05, 10.1), strict=True))
    assert by_turns(False, near).largest and not by_turns(True, near).largest
    found = by_turns(True, near)
    for step, base in (*zip(found.steps[:3], (10.03, 10.03, 10.08), strict=True), (found.whole, 10.53)):
        assert step.seconds.high is not None and step.share and step.share.high is not None
        half = step.seconds.high - step.seconds.estimate
        assert half == pytest.approx(1.96 * COPIES * base, rel=0.002)
        assert step.share.high - step.share.estimate == pytest.approx(half / 10.53, rel=0.002)
    assert found.steps[3].name == FLUSH and found.steps[3].seconds.high == pytest.approx(0.0, abs=1e-9)
    far = dict(zip(ARMS, (10.0, 10.0, 10.5, 10.6), strict=True))
    assert [step.name for step in by_turns(True, far).largest] == [READ]
    close = dict(zip(ARMS, (10.0, 10.0, 10.3, 10.55), strict=True))
    assert [step.name for step in by_turns(False, close).largest] == [READ]
    assert {step.name for step in by_turns(True, close).largest} == {READ, WRITE}


def test_steps_share_their_noise() -> None:
    rng = np.random.default_rng(3)
    widths, held = [], []
    for _ in range(200):
        found = noisy(rng, 3, dict(zip(ARMS, (10.0, 10.1, 10.6, 11.2), strict=True)))
        for step, truth in zip(found.steps[:3], (0.1, 0.5, 0.6), strict=True):
            held.append(not step.seconds.leaves_out(truth))
            widths.append((step.seconds.high or 0) - step.seconds.estimate)
    assert 0.92 < np.mean(held) < 0.98
    assert np.mean(widths) < 0.87 * 4.303 * 0.3 * math.sqrt(2 / 3) * 0.886  # of Student's t with 2 degrees
