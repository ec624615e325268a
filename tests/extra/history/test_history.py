"""Thresholds, series, change points, regressions, sessions side by side; exports."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kit.analysis.session.analyse import analyse
from kit.analysis.session.entry import Conditions, Entry, agree
from kit.analysis.session.session_diff import compare_sessions
from kit.analysis.session.threshold import parse_threshold
from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import as_ratio
from kit.core.errors import UsageError
from kit.extra.exchange.report.pytest_benchmark import render_pytest_benchmark
from kit.extra.history.analysis.changepoint import ChangeHistory, find_changes
from kit.extra.history.analysis.regression import (
    CHANGE,
    GOOD,
    OVER,
    REGRESSION,
    RULES,
    SUSPECT,
    UNDECIDED,
    Finding,
    Rule,
    judge,
)
from kit.extra.history.analysis.series import split
from kit.extra.history.report.history import Subject, render_history
from kit.extra.history.tracks import find_tracks
from kit.model.sample import Phase, Sample
from kit.model.session import Request, Session
from kit.report.text.session_diff import between_rows, render_between
from kit.store import Store, open_store
from kit.store.database import Database
from kit.store.exchange import load
from tests.nights import entry, night, on
from tests.stores import dump, new_store

LIMIT = parse_threshold("layer:overlay2 < 10 %")
ON_CHANGE = Rule(CHANGE)


@cache
def past(number: int, penalty: float, noise: float) -> Entry:
    return entry(night(number, penalty, noise))


def last_finding(penalties: list[float], noise: float = 0.003, rule: Rule = ON_CHANGE) -> Finding:
    entries = [past(i, penalty, noise) for i, penalty in enumerate(penalties)]
    series = split(entries)[-1]
    return judge(LIMIT, entries[-1].outcome.comparison, series, find_changes(series), rule)


@pytest.mark.parametrize(
    ("text", "arm", "phase", "metric", "limit", "back"),
    [
        ("layer:overlay2 build < 10 %", "layer:overlay2", "build", "real", 1.1, "layer:overlay2 build < 10 %"),
        ("layer:overlay2 <10%", "layer:overlay2", "", "real", 1.1, "layer:overlay2 < 10 %"),
        ("bind:overlay2@xfs cpu_total < 2.5 %", "bind:overlay2@xfs", "", "cpu_total", 1.025,
         "bind:overlay2@xfs cpu_total < 2.5 %"),
        ("layer:btrfs build sys < -5 %", "layer:btrfs", "build", "sys", 0.95, "layer:btrfs build sys < -5 %"),
    ],
)  # fmt: skip
def test_thresholds(text: str, arm: str, phase: str, metric: str, limit: float, back: str) -> None:
    found = parse_threshold(text)
    assert (found.arm, found.phase, found.metric) == (arm, phase, metric)
    assert found.limit == pytest.approx(limit)
    assert str(found) == back


@pytest.mark.parametrize(
    "text", ["layer:overlay2", "layer:overlay2 < 10", "nosuch:x < 1 %", "layer:overlay2 a b < 1 %", "bare < -100 %"]
)
def test_bad_thresholds(text: str) -> None:
    with pytest.raises(UsageError):
        parse_threshold(text)


def test_a_threshold_finds_its_comparisons_and_judges_by_the_interval() -> None:
    comparisons = analyse(night(1, 0.2)).comparisons
    (whole,) = LIMIT.find(comparisons)
    (build,) = parse_threshold("layer:overlay2 build < 10 %").find(comparisons)
    assert (whole.phase, build.phase) == ("total", "build")
    assert parse_threshold("layer:overlay2 nosuch < 1 %").find(comparisons) == ()
    assert LIMIT.judge(whole) == "more"
    assert LIMIT.judge(replace(whole, low=1.05)) == "not significant"
    assert LIMIT.judge(replace(whole, low=None, high=None)) == "no interval"
    assert LIMIT.judge(replace(whole, low=0.9, high=1.09)) == "less"


def test_a_changed_machine_begins_a_series_and_says_what_changed() -> None:
    entries = [entry(night(i, 0.05)) for i in range(3)]
    entries += [entry(night(i, 0.05, kernel="6.2", cpu="one, microcode 2")) for i in range(3, 5)]
    first, second = split(entries)
    assert [len(first.entries), len(second.entries)] == [3, 2]
    assert [str(item) for item in second.began_with] == [
        "kernel: 6.1 → 6.2",
        "cpu: one, microcode 1 → one, microcode 2",
    ]
    assert split(entries, across=("kernel", "cpu"))[0].entries == tuple(entries)


def test_machines_that_share_a_store_have_a_series_each() -> None:
    entries = [entry(night(i, 0.05, kernel="ab"[i % 2], machine="ab"[i % 2])) for i in range(8)]
    assert [len(item.entries) for item in split(entries)] == [4, 4]


@pytest.mark.parametrize("across", [(), ("worker",), ("kernel",)])
def test_an_entry_goes_on_with_the_latest_series_of_all_that_agrees(across: tuple[str, ...]) -> None:
    """By the rule itself, of any number of machines of a fleet and of none."""
    plain = entry(night(1, 0.05))
    for seed in range(100):
        dice = random.Random(seed)
        entries = []
        for number in range(dice.randint(1, 20)):
            facts = {name: dice.choice(("a", "b", "")) for name in ("worker", "kernel", "cpu") if dice.random() < 0.7}
            made = replace(plain, session=str(number), created=float(number), conditions=Conditions(facts))
            entries.append(made)
        state: dict[int, Conditions] = {}
        expected: list[list[Entry]] = []  # in the order of their last entries
        for one in entries:
            agreeing = [item for item in expected if agree(state[id(item)], one.conditions, across)]
            mine = agreeing[-1] if agreeing else []
            expected = [*(item for item in expected if item is not mine), mine]
            mine.append(one)
            state[id(mine)] = state.get(id(mine), Conditions()).with_those_of(one.conditions)
        assert [list(item.entries) for item in split(entries, across)] == expected, seed


def test_a_machine_of_a_fleet_has_its_own_past_however_many_others_the_store_has(tmp_path: Path) -> None:
    class Short(Store):
        """Looks back on few sessions, as any does of a fleet large enough."""

        def history(
            self, title: str, arm: str, phase: str = "", metric: str = "real", machine: str = "",
            most: int | None = 5, until: float | None = None,
        ) -> tuple[Entry, ...]:  # fmt: skip
            return super().history(title, arm, phase, metric, machine, most, until)

    store = new_store(tmp_path / "kit.db")
    for number in range(4):
        for machine in range(3):
            store.add(on(machine, number, 0.05))
    last = store.get("m0-003")
    store.close()
    database = Database(f"sqlite:///{tmp_path}/kit.db")
    (found,) = find_tracks(last, analyse(last), Short(database, True, lambda text: None))
    assert [item.session for item in found.series.entries] == [f"m0-00{number}" for number in range(4)]


def test_a_fact_that_one_session_alone_states_breaks_nothing() -> None:
    entries = [entry(night(1, 0.05)), entry(night(2, 0.05, btrfs="v6"))]
    assert len(split(entries)) == 1


def test_names_of_pools_and_space_in_use_are_no_change_of_the_machine() -> None:
    """As dockerd tells of devicemapper and zfs, containerd of its pool, and Podman, whose order varies."""

    def made(number: int, size: str) -> Entry:
        session = night(number, 0.05)
        status = (
            f"Pool Name: docker-7:0-{number}-pool; Base Device Size: {size}; Data file: /dev/loop{number}; "
            f"Data loop file: /run/kit/{session.id}/fs/ext4/data; Data Space Used: {number}GB"
        )
        ordered = ["Using metacopy: false", "Backing Filesystem: extfs"]
        facts = {
            **session.facts,
            "devicemapper on ext4": status,
            "devmapper of containerd on ext4": f'pool_name = "kit-{session.id}-ext4-c-{number}", fs_type = "ext4"',
            "zfs on zfs": f"Zpool: kit-{session.id}-zfs; Compression: off; Space Available: {number}",
            "overlay of podman on ext4": "; ".join(ordered if number % 2 else reversed(ordered)),
        }
        return entry(replace(session, facts=facts))

    assert len(split([made(1, "10GB"), made(2, "10GB")])) == 1
    (differing,) = split([made(1, "10GB"), made(2, "20GB")])[-1].began_with
    assert str(differing) == "devicemapper on ext4: Base Device Size: 10GB → Base Device Size: 20GB"


def test_other_inputs_begin_a_series_unless_ignored() -> None:
    one = night(1, 0.05)
    two = night(2, 0.05)
    two = replace(two, samples=tuple(replace(item, digests=(("scenario", "t"),)) for item in two.samples))
    entries = [entry(one), entry(two)]
    assert str(split(entries)[-1].began_with[0]) == "scenario changed (s → t)"
    assert len(split(entries, across=["scenario"])) == 1


def test_a_step_is_found_where_it_is_and_with_what_moved() -> None:
    sessions = [night(i, 0.05) for i in range(8)] + [replace(night(i, 0.2), kit_version="2") for i in range(8, 12)]
    series = split([entry(item) for item in sessions])[-1]
    (change,) = find_changes(series)
    assert (change.index, change.sessions, change.confirmed, change.up) == (8, 4, True, True)
    assert change.before == pytest.approx(1.045, abs=0.01) and change.after == pytest.approx(1.18, abs=0.01)
    for shift, expected in ((change.shift, 1.13), (change.own, 1.13), (change.base, 1.0)):
        assert shift is not None and shift.low is not None and shift.high is not None
        assert shift.estimate == pytest.approx(expected, abs=0.02) and shift.low < shift.estimate < shift.high
    assert [str(item) for item in change.differs] == ["kit: 1 → 2"]
    text = render_history(
        Subject("mine", "layer:overlay2", "bare", "real of total"), [ChangeHistory(series, (change,), 3)]
    )
    assert "▲" in text and "change point at 2026-0008" in text and "changed there: kit: 1 → 2" in text


def test_the_interval_of_a_change_allows_for_nights_that_take_after_the_last() -> None:
    """Six nights in a row are slow, six are fast: Welch's interval takes them for as many independent ones."""
    swings = [0.03 * math.sin(math.pi * i / 6) for i in range(48)]
    series = split([past(i, swing + (0.5 if i >= 24 else 0.05), 0.003) for i, swing in enumerate(swings)])[-1]
    change = next(item for item in find_changes(series) if item.index == 24)
    logs = [math.log(item.ratio) for item in series.entries]
    welch = as_ratio(estimators.welch(estimators.robust_centre(logs[:24]), estimators.robust_centre(logs[24:])))
    assert change.shift is not None and change.own is not None
    for shift in (change.shift, change.own):
        assert shift.low is not None and shift.high is not None and welch.low is not None and welch.high is not None
        assert math.log(shift.high / shift.low) > 1.3 * math.log(welch.high / welch.low)


def test_noise_is_no_change() -> None:
    series = split([entry(night(i, 0.05)) for i in range(20)])[-1]
    assert find_changes(series) == ()


GOOD_NIGHTS = [0.05] * 8


def test_regressions_need_the_interval_and_the_history() -> None:
    assert last_finding(GOOD_NIGHTS).status == GOOD
    assert last_finding([*GOOD_NIGHTS, 0.11], noise=0.03).status == UNDECIDED
    assert last_finding([*GOOD_NIGHTS, 0.5]).status == SUSPECT  # one noisy night
    assert last_finding([*GOOD_NIGHTS, 0.2, 0.2]).status == SUSPECT
    found = last_finding([*GOOD_NIGHTS, 0.2, 0.2, 0.2])
    assert found.status == REGRESSION and "2026-0008" in found.why
    assert last_finding([0.2] * 8).status == OVER
    assert last_finding([0.2] * 2).status == SUSPECT
    assert last_finding([*GOOD_NIGHTS, *[0.08] * 4]).status == GOOD  # a change below the limit is none of ours
    assert last_finding([*GOOD_NIGHTS, *[0.2] * 4, *[0.05] * 3]).status == GOOD


def test_one_noisy_night_after_a_rise_below_the_limit_is_no_regression() -> None:
    entries = [past(i, penalty, 0.003) for i, penalty in enumerate([*GOOD_NIGHTS, *[0.08] * 8, 0.14])]
    series = split(entries)[-1]
    rise, noisy = find_changes(series)
    assert (rise.index, rise.confirmed, noisy.index, noisy.confirmed) == (8, True, 16, False)
    for rule, fails in ((ON_CHANGE, False), (Rule(), True)):
        found = judge(LIMIT, entries[-1].outcome.comparison, series, (rise, noisy), rule)
        assert (found.status, found.fails) == ((OVER if fails else SUSPECT), fails), found.why


def test_a_regression_says_which_levels_followed_the_rise() -> None:
    high = [*GOOD_NIGHTS, *[0.3] * 8]
    assert "% in the last 8 sessions (since 2026-0008)" in last_finding(high).why
    fallen = last_finding([*high, *[0.2] * 8])
    assert fallen.status == REGRESSION and "% in 8 sessions, then +18." in fallen.why and "last" not in fallen.why
    assert last_finding([*high, *[0.08] * 8, 0.2]).status == SUSPECT  # the fall ended it
    assert last_finding([*[0.4] * 8, *[0.5] * 8, *[0.2] * 8]).status != REGRESSION  # it began above where it is


def test_a_rise_in_two_steps_is_one_although_the_first_level_is_short() -> None:
    found = last_finding([*GOOD_NIGHTS, *[0.12] * 2, *[0.15] * 8])
    assert found.status == REGRESSION, found.why
    assert found.why.startswith("+4.4 % before") and "in the last 8 sessions (since 2026-0010)" in found.why
    assert last_finding([*[0.12] * 8, 0.4, *[0.12] * 8]).status != REGRESSION  # it fell to where it was


def test_a_regression_needs_the_interval_of_all_thresholds() -> None:
    entries = [past(i, penalty, 0.003) for i, penalty in enumerate([*GOOD_NIGHTS, *[0.2] * 4])]
    series = split(entries)[-1]
    whole = entries[-1].outcome.comparison
    assert whole.ratio
    noisy = replace(whole, low=1.11, high=whole.ratio**2 / 1.11)
    for rule in RULES:
        one, many = (judge(LIMIT, noisy, series, find_changes(series), Rule(rule, family=size)) for size in (1, 50))
        assert (one.status, one.fails, many.status, many.fails) == (REGRESSION, True, SUSPECT, False)
        assert "not after correcting for 50 thresholds" in many.why


def test_a_limit_is_a_limit_whatever_the_nights_before_were() -> None:
    first = last_finding([15.35], rule=Rule())
    assert first.status == OVER and first.fails
    always = last_finding([0.2] * 8, rule=Rule())
    assert always.status == OVER and always.fails and "8 sessions in a row" in always.why
    assert not last_finding([0.2] * 8).fails  # on a change: nothing has changed
    changed = last_finding([*GOOD_NIGHTS, 0.2, 0.2, 0.2], rule=Rule())
    assert changed.status == REGRESSION and changed.fails
    within = last_finding([*GOOD_NIGHTS, *[0.08] * 4], rule=Rule())
    assert within.status == GOOD and not within.fails


def test_of_many_thresholds_one_that_noise_crosses_does_not_fail_the_night() -> None:
    """20 % with 5 % of noise in 4 rounds: its own interval leaves 10 % out, one that allows for 50 thresholds not."""
    seeds = [[0.2] * count for count in range(1, 12)]
    alone = [last_finding(penalties, 0.03, Rule()) for penalties in seeds]
    among = [last_finding(penalties, 0.03, Rule(family=50)) for penalties in seeds]
    suspect = [two for one, two in zip(alone, among, strict=True) if one.status == OVER and two.status == SUSPECT]
    assert suspect and not any(item.fails for item in suspect)
    assert "not after correcting for 50 thresholds" in suspect[0].why


def test_the_store_keeps_outcomes_and_reads_them_without_samples(tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    for i in range(3):
        store.add(night(i, 0.05))
    store.add(replace(night(4, 0.05), status="interrupted"))
    first = store.history("mine", "layer:overlay2")
    assert [item.session for item in first] == ["2026-0000", "2026-0001", "2026-0002"]
    assert store.history("mine", "layer:overlay2") == first == tuple(entry(night(i, 0.05)) for i in range(3))
    assert store.history("mine", "layer:overlay2", "clean")[0].outcome.comparison.phase == "clean"
    assert store.history("other", "layer:overlay2") == ()


def test_a_session_has_its_past_however_many_came_after(tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    for i in range(4):
        store.add(night(i, 0.05))
    old = night(1, 0.05)
    past = store.history("mine", "layer:overlay2", most=2, until=old.created)
    assert [item.session for item in past] == ["2026-0000", "2026-0001"]
    (found,) = find_tracks(old, analyse(old), store)
    assert [item.session for item in found.series.entries] == ["2026-0000", "2026-0001"]


def test_a_store_that_may_only_be_read_has_histories_too(tmp_path: Path) -> None:
    new_store(tmp_path / "kit.db").add(night(1, 0.05))
    store = open_store(f"sqlite:///file:{tmp_path}/kit.db?mode=ro&uri=true", tmp_path / "unused")
    assert store.history("mine", "layer:overlay2") == (entry(night(1, 0.05)),)


def test_sessions_side_by_side() -> None:
    one, two = night(1, 0.05), night(2, 0.2, kernel="6.2")
    found = compare_sessions((one, analyse(one)), (two, analyse(two)))
    (moved,) = found.moved
    assert moved.verdict == "more" and moved.change is not None
    assert moved.change.low is not None and moved.change.low < 1.13 < (moved.change.high or 0)
    text = render_between(one, two, found)
    assert "larger in B" in text and "kernel: 6.1 → 6.2" in text
    same = compare_sessions((one, analyse(one)), (one, analyse(one)))
    assert same.moved[0].verdict == "not significant" and not same.differs
    other = replace(two, samples=tuple(replace(item, digests=(("scenario", "t"),)) for item in two.samples))
    unlike = compare_sessions((one, analyse(one)), (other, analyse(other)))
    assert unlike.moved[0].change is None and "not compared: scenario differs" in render_between(one, other, unlike)


def test_the_table_of_two_sessions_names_its_figures_and_what_to_do_about_other_inputs() -> None:
    one, two = (replace(night(number, 0.05), title="make -j2") for number in (1, 2))
    text = render_between(one, two, compare_sessions((one, analyse(one)), (two, analyse(two))))
    assert "A and B are the real time of the whole run" in text and "Intervals are individual, 95 %." in text
    assert "--ignore" not in text
    built = (("input src", "a"), ("probe", "p")), (("input src", "b"), ("probe", "q"))
    one, two = (
        replace(session, samples=tuple(replace(sample, digests=digests) for sample in session.samples))
        for session, digests in zip((one, two), built, strict=True)
    )
    found = compare_sessions((one, analyse(one)), (two, analyse(two)))
    command = "kit history 'make -j2' layer:overlay2 --ignore sources --ignore probe"
    assert command in render_between(one, two, found).splitlines()
    assert command in between_rows(one, two, found)[2]
    other = replace(two, title="make -j4")
    assert "kit history 'make" not in render_between(one, other, found)


def test_of_many_arms_one_that_moved_a_little_is_reported_as_such() -> None:
    def made(seed: int) -> Session:
        dice = random.Random(seed)
        arms = [f"arm{i}" for i in range(20)]
        samples = [
            Sample(arm, round_, "measured", "ok", 0.0, (Phase("run", "ok", real=10 * dice.gauss(1, 0.01)),))
            for round_ in range(1, 6)
            for arm in ("bare", *arms)
        ]
        pairs = tuple((arm, "bare") for arm in arms)
        return replace(night(seed, 0), arms=("bare", *arms), baselines=pairs, samples=tuple(samples))

    one, two = made(11), made(2)
    found = compare_sessions((one, analyse(one)), (two, analyse(two)))
    assert {(item.verdict_all, item.family) for item in found.moved} == {("not significant", 20)}
    assert [item for item in found.moved if item.verdict != "not significant"]
    assert "in B, but not significant after correcting for 20 comparisons" in render_between(one, two, found)


def test_exports_come_back_as_they_were() -> None:
    session = replace(night(1, 0.05), request=Request(params=(("jobs", "2"),), precision=0.02))
    assert load(dump([session]), "x") == (replace(session, imported=True),)
    for bad in ("{}", '{"kit-export": 1}', '{"kit-export": 1, "sessions": [{"id": 1}]}', "x", '{"kit-export": 99}'):
        with pytest.raises(UsageError, match="x: "):
            load(bad, "x")


def test_pytest_benchmark_gets_its_figures() -> None:
    document = json.loads(render_pytest_benchmark([night(1, 0.05)]))
    names = [item["name"] for item in document["benchmarks"]]
    assert names == [
        f"mine[{arm}] {part}" for arm in ("bare", "layer:overlay2") for part in ("build", "clean", "total")
    ]
    assert document["benchmarks"][0]["stats"]["rounds"] == 4
    assert 1.0 < document["benchmarks"][5]["extra_info"]["ratio"] < 1.1
    assert document["commit_info"]["id"] == "unknown"


def test_pytest_benchmark_gets_the_commit() -> None:
    commit = "c" * 40
    document = json.loads(render_pytest_benchmark([night(1, 0.05, **{"CI commit": commit})]))
    assert document["commit_info"]["id"] == document["benchmarks"][0]["extra_info"]["commit"] == commit
