"""Limits of a run: what outlives them is ended with all that it started, and the session goes on."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.arms.probe import Probe, ProbeServer, probe_binary
from kit.core.deadline import Deadline, run_deadline
from kit.core.errors import TimedOut
from kit.core.paths import find_paths
from kit.core.quantity import shown_duration
from kit.extra.history.nightly.file import parse_nightly
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from tests.command_line import Kit
from tests.fake_engine import FakeEngine, execute, scenario

pytestmark = pytest.mark.usefixtures(
    "calm"
)  # no burst and no wait for the machine: its other users change nothing here

#: A command, a child, and a daemon that has left both its tree and its process group; each notes its number.
BROOD = (
    "echo $$ >> pids; (setsid sh -c '(echo $$ >> pids; exec sleep 1000) & exit' &); sleep 1000 & echo $! >> pids; wait"
)


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Probe]:
    server = ProbeServer(tmp_path)
    process = subprocess.Popen([probe_binary(find_paths().cache), "serve", server.path])
    connected = server.accept(lambda: "")
    yield connected
    connected.close()
    server.close()
    process.wait(60)


def test_what_outlives_its_deadline_is_ended_with_all_descendants(probe: Probe, tmp_path: Path) -> None:
    deadline = Deadline(time.monotonic() + 5, "timed out after 5 s")  # all three have noted their numbers by then
    env = {"PATH": os.environ["PATH"]}
    with (tmp_path / "log").open("wb") as output, pytest.raises(TimedOut, match="timed out after 5 s"):
        probe.run(["sh", "-c", BROOD], cwd=str(tmp_path), env=env, output=output, deadline=deadline)
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 3
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_what_ends_in_time_is_measured_as_ever(probe: Probe, tmp_path: Path) -> None:
    deadline = Deadline(time.monotonic() + 60, "")
    with (tmp_path / "log").open("wb") as output:
        for _ in range(2):
            assert probe.run(["true"], cwd="/", env={"PATH": "/bin"}, output=output, deadline=deadline).ok


def test_the_limit_of_a_run() -> None:
    assert run_deadline(100.0, None, None, 0.0) is None
    own = Deadline(7300.0, "timed out after 2 h, the limit set by timeout", own=True)
    assert run_deadline(100.0, 7200.0, None, 0.0) == own
    # What the budget leaves, where nothing is known yet of how long a run takes; then at least twice the longest.
    budget = "timed out after 5 s: the budget is over"
    assert run_deadline(100.0, None, 5.0, 0.0) == Deadline(105.0, budget)
    assert run_deadline(100.0, None, 5.0, 2.0) == Deadline(105.0, budget)
    later = run_deadline(100.0, None, 5.0, 30.0)
    assert (
        later
        and later.at == 160.0
        and later.text.startswith("timed out after 1 min: the budget is over, and no run so far")
    )
    assert run_deadline(100.0, 3.0, 5.0, 30.0) == Deadline(
        103.0, "timed out after 3 s, the limit set by timeout", own=True
    )


def test_durations_are_shown_with_their_units() -> None:
    assert [shown_duration(value) for value in (5, 90, 3600, 5400, 7325, 0.5)] == [
        "5 s",
        "1 min 30 s",
        "1 h",
        "1 h 30 min",
        "2 h 02 min",
        "0.5 s",
    ]


def test_a_run_that_hangs_is_a_failed_sample_and_the_rest_goes_on(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, hanging="bare")
    plan = make_plan(parse_arms("bare,layer:overlay2"), SessionOptions(rounds=1, seed=3, cache="cold", timeout=5.0))
    session, store = execute(tmp_path, engine, plan, scenario("one"))
    found = {sample.arm: sample for sample in store.get("x").samples}
    error = "one timed out after 5 s, the limit set by timeout\n  | begun"
    assert (found["bare"].status, found["bare"].error) == ("failed", error)
    assert found["layer:overlay2"].status == "ok" and session.status == "done"
    assert "killed" in engine.events


def test_a_hang_in_preparations_is_cut_off_too(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, hanging="prepare")
    plan = make_plan(parse_arms("bare"), SessionOptions(rounds=1, seed=3, cache="cold", timeout=5.0))
    session, _ = execute(tmp_path, engine, plan, scenario("one"))
    assert "prepare timed out after 5 s" in session.samples[0].error and "run one" not in engine.events


def test_no_run_begins_when_the_budget_is_over(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    plan = make_plan(parse_arms("bare,layer:overlay2"), SessionOptions(rounds=3, seed=3, cache="cold", budget=10.0))
    left = iter([10.0, 10.0, 10.0, 0.0, 0.0])
    session, _ = execute(tmp_path, engine, plan, scenario("one"), left=lambda: next(left, 0.0))
    assert len(session.samples) == 1
    assert session.facts["stopped"] == "the budget is over"


def test_a_budget_that_is_over_before_the_first_run_is_a_failure(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    plan = make_plan(parse_arms("bare"), SessionOptions(rounds=3, seed=3, budget=10.0))
    session, _ = execute(tmp_path, engine, plan, scenario("one"), left=lambda: -1.0)
    assert (session.status, session.samples) == ("failed", ())
    assert engine.events[-1].startswith("tell nothing was measured: the budget is over")


def test_nights_have_a_limit_of_their_own() -> None:
    text = '[[tasks]]\nscenario = "smoke"\n[[tasks]]\nscenario = "smoke"\ntimeout = "30m"\n'
    assert [task.request.timeout for task in parse_nightly(text, "x", "x").tasks] == [7200.0, 1800.0]
    text = '[defaults]\ntimeout = "6h"\n' + text
    assert [task.request.timeout for task in parse_nightly(text, "x", "x").tasks] == [21600.0, 1800.0]


@pytest.mark.machine
@pytest.mark.unmeasured
def test_real_arms_are_ended_with_all_descendants(kit: Kit, tiny: Path) -> None:
    words = ("--arms", "bare,layer:overlay2", "--rounds", "1", "--cache", "cold", "--image", tiny, "--size", "1G")
    script = "(setsid sleep 4040.5 &); [ -e /.dockerenv ] || exit 0; exec sleep 4040.5"
    done = kit("compare", *words, "--timeout", "3s", "--", "sh", "-c", script, timeout=200)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "timed out after 3 s, the limit set by timeout" in done.stdout
    alive = [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"4040.5" in _read(path)]
    assert alive == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
