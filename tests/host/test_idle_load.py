"""Tests of the idle load: it is subtracted from outside CPU, or the figure is left out with the reason."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.host.cgroup.counters import Counters
from kit.host.cgroup.idle_load import IdleRate, IdleWatch, Process, busiest, kit_pids, processes
from kit.model.arm import parse_arms
from kit.model.fact import stored
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from kit.session.measure.phase import _less_idle
from tests.fake_engine import FakeEngine, execute, scenario

pytestmark = pytest.mark.usefixtures("calm")

INTERVAL = Counters(10.0, 5.0, 0.0, 1.0, 1.0, 0.0, 0.0, *[None] * 10)


def test_rate_and_error_of_a_window() -> None:
    found = IdleRate.of([0.01, 0.03, 0.01, 0.03, 0.02])
    assert found.rate == pytest.approx(0.02) and found.error == pytest.approx(0.01 / 5**0.5)
    assert found.reason == ""


def test_a_rate_that_is_no_measure_leaves_the_figure_out() -> None:
    assert _less_idle(INTERVAL, IdleRate(0.02)) == pytest.approx(2.8)
    busy, jumpy = IdleRate.of([1.9986] * 5), IdleRate.of([0.0, 0.0, 0.0, 0.0, 0.4])
    cpus = os.cpu_count()
    assert busy.reason == f"other programs use 2.00 of {cpus} CPUs"
    assert jumpy.reason == f"the CPU use of other programs is not steady, 0.08 ± 0.08 of {cpus} CPUs"
    assert _less_idle(INTERVAL, busy) is None and _less_idle(INTERVAL, jumpy) is None


def shares(monkeypatch: pytest.MonkeyPatch, *windows: float) -> None:
    parts = iter([value for value in windows for _ in range(5)])
    monkeypatch.setattr("kit.host.cgroup.idle_load._busy_share", lambda length: next(parts))


def test_the_first_window_is_that_after_which_nothing_settles_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    shares(monkeypatch, 0.9, 0.3, 0.05, 0.045)
    told: list[str] = []
    watch = IdleWatch(told.append)
    assert watch.first().rate == pytest.approx(0.045)
    assert told == []


def test_a_machine_that_is_busy_and_stays_so_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    shares(monkeypatch, 1.0, 0.8, 0.95)  # a window more would be one too many here
    assert IdleWatch(told.append).first().rate == pytest.approx(0.95)
    assert len(told) == 1 and told[0].startswith("other programs use 0.95 of ")
    shares(monkeypatch, 1.0, 0.95, 0.85, 0.7, 0.3, 0.02, 0.02)  # it calms down
    assert IdleWatch(told.append).first().rate == pytest.approx(0.02)
    assert len(told) == 1


def test_before_a_round_what_the_last_run_left_behind_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shares(monkeypatch, 0.01, 0.01, 0.4, 0.02)
    told: list[str] = []
    watch = IdleWatch(told.append)
    watch.first()
    assert watch.again(100.0).rate == pytest.approx(0.02)
    assert told == []
    assert stored(watch.facts()) == {"idle CPU": "0.0150 s per s (from 0.0100 to 0.0200 before 2 rounds)"}


def test_a_machine_that_stays_busy_is_reported_once_and_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    shares(monkeypatch, 0.01, 0.01, 0.4, 0.4, 0.4, 0.4, 0.5)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    told: list[str] = []
    watch = IdleWatch(told.append)
    watch.first()
    assert watch.again(100.0).reason and watch.again(100.0).reason
    assert told == ["other programs use 0.40 of 2 CPUs: outside CPU is left out meanwhile"]
    assert stored(watch.facts())["no outside CPU"] == "other programs use 0.40 of 2 CPUs"


def test_rounds_that_begin_on_a_busy_machine_are_noted_with_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    shares(monkeypatch, 0.01, 0.01, 0.4, 0.4, 0.4, 0.4)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    watch = IdleWatch(lambda text: None)
    watch.first()
    watch.note_round(1)
    watch.again(100.0)
    watch.note_round(2)
    watch.note_round(0)  # a warm-up is no round
    busy = {key: text for key, text in stored(watch.facts()).items() if key.startswith("busy")}
    assert busy == {"busy before round 2": "0.40 of 2 CPUs"}


def test_the_busiest_programs_are_named_without_the_kits_own() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert {os.getpid(), busy.pid} <= kit_pids()
        before = after = {busy.pid: processes()[busy.pid]}
        while not busiest(before, after, frozenset()):
            after = {busy.pid: processes()[busy.pid]}
    finally:
        busy.kill()
        busy.wait()
    assert f"({busy.pid}) " in busiest(before, after, frozenset())
    before = {1: Process("init", 0, 5.0, 10.0), 2: Process("cc1", 1, 1.0, 10.0), 3: Process("kit", 1, 0.0, 10.0)}
    after = {1: Process("init", 0, 5.0, 11.0), 2: Process("cc1", 1, 1.93, 11.0), 3: Process("kit", 1, 1.0, 11.0)}
    assert busiest(before, after, frozenset({3})) == "cc1 (2) 93 %"


def test_a_session_says_why_it_has_no_outside_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.host.cgroup.idle_load._busy_share", lambda length: 1.5)
    engine = FakeEngine(tmp_path)
    session, store = execute(
        tmp_path, engine, make_plan(parse_arms("bare"), SessionOptions(rounds=2, seed=3, cache="cold")), scenario("one")
    )
    assert store.get("x").facts["no outside CPU"].startswith("other programs use 1.50 of ")
    assert [phase.outside for sample in session.samples for phase in sample.phases] == [None, None]
