"""A fleet's figure: from sessions of machines to one answer, with machines that do not fit, and classes."""

import math
from dataclasses import replace

import numpy as np
import pytest

from kit.analysis.fleet.answer import FleetAnswer, answer, answer_sessions, find_apart
from kit.analysis.fleet.cost import MachineRatio, find_outliers, over_machines, split_ratios
from kit.analysis.session.analyse import analyse
from kit.analysis.session.entry import Entry
from kit.analysis.stats.estimate import MORE, NO_INTERVAL, Interval
from kit.model.session import Session
from tests.nights import entry, night


def machine(number: int, ratio: float, error: float | None = 0.005, degrees: int = 6) -> MachineRatio:
    variance = None if error is None else error**2
    return MachineRatio(f"m{number:02}", "", f"s{number}", Interval(ratio, None, None, 5), variance, degrees)


def on(name: str, number: int, penalty: float, **facts: str) -> Session:
    made = night(number, penalty)
    return replace(made, facts={**made.facts, "machine": name, **facts})


def told(*sessions: Session) -> FleetAnswer:
    return answer_sessions([(session, analyse(session)) for session in sessions])


def test_two_machines_are_a_reason_and_no_figure() -> None:
    found = over_machines([machine(1, 1.1), machine(2, 1.2)])
    assert (found.ratio, found.prediction, found.spread, found.verdict) == (None, None, None, NO_INTERVAL)
    assert "3 are the minimum" in found.reason


def test_the_mean_is_over_machines_and_another_may_be_farther_off() -> None:
    found = over_machines([machine(i, ratio) for i, ratio in enumerate((1.02, 1.06, 1.10, 1.14))])
    ratio, another = found.ratio, found.prediction
    assert ratio and ratio.estimate == pytest.approx(math.prod((1.02, 1.06, 1.10, 1.14)) ** 0.25, rel=1e-3)
    assert ratio.low and ratio.high and another and another.low and another.high
    assert another.low < ratio.low < 1.08 < ratio.high < another.high
    assert found.spread and found.spread.low < 0.05 < found.spread.high and found.spread.share > 0.9


def test_the_mean_without_an_outlier_is_beside_that_of_all() -> None:
    alike = [machine(i, 1.05 + i / 1000) for i in range(9)]
    assert over_machines(alike).without_outliers is None
    odd = machine(9, 1.25)
    found, rest = over_machines([*alike, odd]), over_machines(alike)
    assert [outlier.found for outlier in found.outliers] == [odd]
    everyone, others = found.ratio, rest.ratio
    assert everyone and others and found.without_outliers == Interval(others.estimate, others.low, others.high, 9)
    assert everyone.high and everyone.low and others.high and others.low
    assert everyone.high - everyone.low > 3 * (others.high - others.low)


def test_with_all_arms_allowed_for_intervals_are_wider() -> None:
    one = over_machines([machine(i, ratio) for i, ratio in enumerate((1.01, 1.04, 1.06))], family=7).ratio
    assert one and one.low and one.together.low and one.high and one.together.high
    assert one.together.low < one.low < one.high < one.together.high


def test_machines_of_one_round_say_that_noise_is_in_the_spread() -> None:
    found = over_machines([machine(i, 1 + i / 50, None) for i in range(4)])
    assert found.spread and found.spread.with_noise
    mixed = over_machines([machine(i, 1 + i / 50, 0.004 if i else None) for i in range(4)])
    assert mixed.spread and not mixed.spread.with_noise


def test_what_one_machine_says_of_its_noise_is_not_what_all_know() -> None:
    """A noisy one with several rounds among many with one: theirs was taken for as large, and no spread was left."""
    rng = np.random.default_rng(2)
    once = [machine(i, math.exp(rng.normal(0.05, 0.02)), None) for i in range(30)]
    found = over_machines([*once, machine(30, 1.05, 0.03, 4)])
    assert found.spread and found.spread.with_noise and found.spread.low < 0.02 < found.spread.high
    assert found.spread.low > 0.01 and found.prediction and found.prediction.low and found.prediction.low < 1.03


def test_two_that_do_not_fit_do_not_hide_each_other() -> None:
    like = [machine(i, 1.05 + 0.001 * (-1) ** i) for i in range(10)]
    odd = [machine(20, 1.30), machine(21, 1.31)]
    assert {item.found.machine for item in find_outliers([*like, *odd])} == {"m20", "m21"}
    assert find_outliers(like) == ()


def test_rounds_of_a_split_session_are_nested_in_machines() -> None:
    """Rounds of one machine say the same thing twice: the interval rests on machines."""
    rng = np.random.default_rng(1)
    truth = (0.0, 0.1, 0.2, 0.3)
    logs = [(f"m{i}", "c", "s", truth[i] + rng.normal(0, 0.01, 8)) for i in range(4)]
    ratios = split_ratios(logs)
    assert {item.degrees for item in ratios} == {28} and ratios[0].variance == pytest.approx(0.01**2 / 8, rel=0.5)
    found = over_machines(ratios)
    every = np.concatenate([values for *_, values in logs])
    naive = 2 * 2.04 * every.std(ddof=1) / every.size**0.5
    assert (
        found.ratio
        and found.ratio.low
        and found.ratio.high
        and math.log(found.ratio.high / found.ratio.low) > 2 * naive
    )
    assert found.spread and 0.08 < found.spread.tau < 0.2


def test_one_round_on_each_machine_is_an_interval_all_the_same() -> None:
    found = over_machines(split_ratios([(f"m{i}", "", "s", np.array([0.01 * i])) for i in range(5)]))
    assert found.ratio and found.ratio.low and found.spread and found.spread.with_noise


def test_sessions_of_machines_become_one_answer() -> None:
    fleet = told(*(on(f"m{i}", i, 0.10 + 0.01 * i) for i in range(4)))
    (arm,) = fleet.arms
    assert (arm.arm, arm.baseline, arm.phase, arm.metric) == ("layer:overlay2", "bare", "total", "real")
    assert fleet.machines == 4 and not fleet.left_out and not arm.classes
    assert arm.whole.ratio and arm.whole.ratio.estimate == pytest.approx(1.105, abs=0.01) and arm.whole.verdict == MORE
    assert [item.machine for item in arm.whole.machines] == ["m0", "m1", "m2", "m3"]


def test_the_newest_session_of_each_machine_counts() -> None:
    fleet = told(on("m0", 1, 0.5), *(on(f"m{i}", 10 + i, 0.10) for i in range(3)))
    assert [item.session for item in fleet.arms[0].whole.machines] == ["2026-0010", "2026-0011", "2026-0012"]


def test_what_was_run_otherwise_is_left_out_and_named() -> None:
    good = [on(f"m{i}", i, 0.10) for i in range(3)]
    older = replace(on("m7", 7, 0.10), kit_version="0")
    cold = on("m8", 8, 0.10, caches="cold")
    turns = on("m9", 9, 0.10, **{"run order": "interleaved"})
    fleet = told(*good, older, cold, turns)
    assert fleet.machines == 3
    why = [item.why for item in fleet.left_out]
    assert why == ["kit: 1 → 0", "caches: warm → cold", "run order: sequential → interleaved"]
    assert (fleet.left_out[0].machine, fleet.left_out[0].session) == ("m7", "2026-0007")


def test_a_machine_counts_once_whatever_its_name_and_number_of_workers() -> None:
    def of(worker: str, number: int, **facts: str) -> Session:
        return on("m", number, 0.1, worker=worker, **facts)

    together = told(*(of(f"w{i}", i, **{"measured together": "yes"}) for i in range(3)))
    assert [item.machine for item in together.arms[0].whole.machines] == ["w2"] and together.machines == 1
    assert [(item.machine, item.why) for item in together.left_out] == [
        ("w0", "w2 is a worker of the same machine"),
        ("w1", "w2 is a worker of the same machine"),
    ]
    assert told(*(of(f"w{i}", i) for i in range(3))).machines == 1


def test_classes_are_reported_by_themselves_and_whether_they_differ() -> None:
    fleet = told(
        *(on(f"m{i}", i, 0.30 if i % 2 else 0.05, **{"class": "large" if i % 2 else "small"}) for i in range(8))
    )
    (arm,) = fleet.arms
    assert fleet.classes == {"large": 4, "small": 4}
    ratios = [(item.machine_class, item.ratio) for item in arm.classes if item.ratio]
    assert [(name, round(ratio.estimate, 1)) for name, ratio in ratios] == [
        ("large", 1.3),
        ("small", 1.0),
    ]
    assert arm.classes_differ and arm.apart is not None and arm.apart < 1e-4


def test_like_classes_are_said_to_differ_in_one_fleet_of_twenty() -> None:
    rng = np.random.default_rng(5)
    chances = [find_apart(rng.normal(0, 1, (2, 5)).tolist()) or 1.0 for _ in range(1000)]
    assert 0.03 < np.mean(np.array(chances) < 0.05) < 0.07


def entries_of(*sessions: Session) -> list[Entry]:
    return [entry(session) for session in sessions]


def test_from_a_store_the_same_comes_out() -> None:
    sessions = [on(f"m{i}", i, 0.10 + 0.01 * i) for i in range(4)]
    assert answer("mine", entries_of(*sessions)) == told(*sessions)


def test_a_sessions_noise_is_neither_too_large_nor_too_small() -> None:
    """What of a session's interval is its noise: on average over sessions the true variance of its figure."""
    variances, logs = [], []
    for number in range(25):
        session = night(number, 0.1, noise=0.01)
        ((found,),) = (arm.whole.machines for arm in told(session).arms)
        variances.append(found.variance or 0.0)
        logs.append(found.log)
    assert 0.5 < np.mean(variances) / np.var(logs, ddof=1) < 2
