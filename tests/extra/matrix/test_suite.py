"""A suite spends its budget where arms are undecided, and goes on with what an earlier start has left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kit.cli.compare import compare
from kit.core.errors import BusyError, UnavailableError, UsageError
from kit.extra.history.nightly.job import Job
from kit.extra.matrix.suite import Runner, SuitePart, find_run, find_suite, new_run, run_suite
from kit.extra.matrix.suite_command import _check_begun, _report
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from kit.model.session import FAILED, INTERRUPTED, Request, Session
from kit.session.plan.planning import find_scenario
from kit.session.setup.resumable import record_begun
from tests.command_line import Kit
from tests.matrices import COSTS, made
from tests.stores import new_store

SUITE = "".join(f"[[tasks]]\nscenario = '{name}'\n" for name in ("kernel:short", "git:short", "fsync:short"))
SET_UP, ROUND, SLOW_ROUND = 20.0, 40.0, 150.0
#: How noisy a scenario is: one is decided after three rounds, one needs more, one is not decided by any number.
NOISE = {"kernel:short": 0.002, "git:short": 0.02, "fsync:short": 3.0}


class Bench:
    """Sessions made up, on a clock that they move: what a machine would do with the same requests."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.log: list[tuple[str, float | None]] = []
        self.sessions: dict[str, Session] = {}
        self.broken: set[str] = set()

    def measure(self, request: Request) -> Session:
        self.log.append((request.scenario, request.budget))
        if request.scenario in self.broken:
            raise UnavailableError("no image", "build one")
        return self._play(request, 0, request.budget or 600.0)

    def go_on(self, name: str, budget: float | None) -> Session:
        known = self.sessions[name]
        self.log.append((known.title, budget))
        done = len({item.round for item in known.samples})
        return self._play(known.request, done, budget) if budget else known

    def _play(self, request: Request, done: int, budget: float) -> Session:
        """Run rounds; after three of them ``bare`` drops out, a third of a round."""
        each = SLOW_ROUND if request.scenario == "git:short" else ROUND
        began = [each * (min(number, 3) + max(number - 3, 0) * 2 / 3) for number in range(200)]
        rounds = max(number for number in range(done, 200) if began[number] - began[done] <= max(budget - SET_UP, 0))
        rounds = 3 if NOISE[request.scenario] < 0.01 and rounds > 3 else rounds
        self.seconds += SET_UP + began[rounds] - began[done]
        costs = {arm: COSTS[request.scenario][arm] for arm in ("bare", "layer:overlay2", "layer:btrfs")}
        if request.scenario == "git:short":
            costs["layer:btrfs"] = 1.05
        session = made(request.scenario, costs, rounds=rounds, noise=NOISE[request.scenario])
        samples = tuple(
            replace(sample, started=1.7e9 + began[sample.round])
            for sample in session.samples
            if sample.arm != "bare" or sample.round <= 3
        )
        found = replace(session, request=replace(request, rounds=0), samples=samples)
        self.sessions[found.id] = found
        return found

    @property
    def runner(self) -> Runner:
        return Runner(self.measure, self.go_on, lambda text: None, lambda: self.seconds)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(SUITE)
    return path


def test_each_scenario_gets_a_share_and_the_rest_goes_to_the_undecided(suite: Path) -> None:
    bench, job = Bench(), replace(find_suite(f"suite:{suite}"), budget=1800.0)
    parts = run_suite(job, "mine x", {}, bench.runner)
    assert [part.session.title for part in parts if part.session] == ["kernel:short", "git:short", "fsync:short"]
    assert bench.log[:2] == [
        ("kernel:short", None),
        ("git:short", None),
    ]  # half of what is left is more than ten minutes
    more = bench.log[3:]
    assert more and all(budget for _, budget in more) and {name for name, _ in more} <= {"git:short", "fsync:short"}
    assert bench.seconds <= 1800.0 + SLOW_ROUND
    assert [part.session.request.suite for part in parts if part.session] == [f"mine x {i}" for i in (1, 2, 3)]


def test_what_100_rounds_may_not_decide_gets_what_the_others_leave(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setitem(NOISE, "kernel:short", 0.025)
    monkeypatch.setitem(NOISE, "git:short", 0.06)
    bench, job = Bench(), replace(find_suite(f"suite:{suite}"), budget=7200.0)
    bench.broken = {"fsync:short"}
    run_suite(job, "mine x", {}, bench.runner)
    more = [name for name, _ in bench.log[3:]]
    assert "kernel:short" in more and more[-1] == "git:short" and more == sorted(more, reverse=True)
    assert bench.seconds > 6000.0


def test_a_small_budget_is_shared_equally(suite: Path) -> None:
    bench, job = Bench(), replace(find_suite(f"suite:{suite}"), budget=480.0)
    run_suite(job, "mine x", {}, bench.runner)
    assert bench.log[0] == ("kernel:short", 160.0)
    assert bench.log[1][1] == pytest.approx((480.0 - SET_UP - 3 * ROUND) / 2)


def test_a_scenario_of_one_round_is_undecided_too(suite: Path) -> None:
    bench, job = Bench(), replace(find_suite(f"suite:{suite}"), budget=720.0)
    bench.broken = {"fsync:short"}
    parts = run_suite(job, "mine x", {}, bench.runner)
    assert [len({item.round for item in part.session.samples}) for part in parts if part.session] == [3, 1]
    assert {name for name, budget in bench.log[3:] if budget} == {"git:short"}


def test_a_scenario_that_can_not_run_stops_no_other_and_a_spent_budget_is_said(suite: Path) -> None:
    bench, job = Bench(), replace(find_suite(f"suite:{suite}"), budget=300.0)
    bench.broken = {"kernel:short"}
    parts = run_suite(job, "mine x", {}, bench.runner)
    assert "no image" in parts[0].error and parts[1].session
    late = run_suite(replace(job, budget=10.0), "mine x", {}, bench.runner)
    assert all("the budget was spent" in part.error for part in late)


def test_another_session_on_the_machine_ends_the_suite(suite: Path) -> None:
    bench, job = Bench(), replace(find_suite(f"suite:{suite}"), budget=900.0)

    def busy(request: Request) -> Session:
        raise BusyError("another session uses this machine", "wait for it")

    with pytest.raises(BusyError):
        run_suite(job, "mine x", {}, replace(bench.runner, measure=busy))


def test_a_task_with_a_budget_of_its_own_is_not_continued(suite: Path) -> None:
    suite.write_text(SUITE.replace("'git:short'", "'git:short'\nbudget = '400s'"))
    bench, job = Bench(), replace(find_suite(f"suite:{suite}"), budget=3000.0)
    run_suite(job, "mine x", {}, bench.runner)
    assert bench.log[1] == ("git:short", 400.0)
    assert [name for name, _ in bench.log].count("git:short") == 1  # continued without: see the first test


def test_two_tasks_of_one_name_are_refused(suite: Path) -> None:
    suite.write_text(SUITE + "[[tasks]]\nscenario = 'git:short'\nparams = { jobs = 1 }\n")
    with pytest.raises(UsageError, match="two tasks have the name 'git:short'"):
        find_suite(f"suite:{suite}")
    suite.write_text(suite.read_text() + "title = 'git, one job'\n")
    assert len(find_suite(f"suite:{suite}").tasks) == 4


def test_the_answer_is_of_the_suites_sessions_and_their_margin(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    tasks, store = find_suite(f"suite:{suite}").tasks, new_store(tmp_path / "kit.db")
    kernel, git, fsync = (made(title, COSTS[title]) for title in COSTS)
    kernel = replace(kernel, request=replace(kernel.request, margin=0.1))
    broken = replace(git.samples[-1], status="failed", error="git: no space left")
    git = replace(git, status=FAILED, samples=(broken,))
    store.add_new([kernel, git, fsync, made("kernel:short", COSTS["git:short"], 9)])  # the last is not the suite's
    parts = tuple(SuitePart(task, session) for task, session in zip(tasks, (kernel, git, fsync), strict=True))
    assert _report(parts, store, "suite:mine.toml") == 1
    said = capsys.readouterr().out
    assert "these 2 scenarios" in said and "within ±10 %" in " ".join(said.split())
    assert "git:short: failed: bind:overlay2: git: no space left\n" in said
    assert "More: kit matrix --margin 10%     Decide more: kit compare suite:mine.toml --resume last" in said
    cells = [line for line in said.splitlines() if line.startswith("kernel:short")]
    assert cells and "=" in cells[0] and "▲" in cells[0]  # btrfs is equal, vfs 20 % slower; of the other session 50


def test_a_run_goes_on_as_it_began(suite: Path) -> None:
    begun = replace(made("kernel:short", COSTS["kernel:short"]), arms=("bare", "bare+control", "layer:vfs"))
    asked = find_suite(f"suite:{suite}").tasks[0].request
    _check_begun(begun, asked, set())
    _check_begun(begun, replace(asked, arms=("bare", "layer:vfs")), {"arms", "budget", "margin"})
    with pytest.raises(UsageError, match="--arms differs from that of session kernel-short-001"):
        _check_begun(begun, replace(asked, arms=("bare",)), {"arms"})


def _part(title: str, number: int, suite: str, machine: str = "aa") -> Session:
    """Return a session of a suite's run, with a plan."""
    session = made(title, COSTS[title], number, machine=machine)
    plan = make_plan(parse_arms(",".join(session.arms)), SessionOptions(rounds=6, seed=session.seed, control=False))
    request = replace(session.request, scenario=title, suite=suite)
    arms = tuple(map(str, plan.arms))
    return replace(session, request=request, arms=arms, baselines=plan.baselines, plan=plan)


@pytest.mark.promise("a shared store", "Suites go on from sessions alone that this user has begun here, unchanged.")
def test_it_goes_on_with_its_last_run(suite: Path, tmp_path: Path) -> None:
    job, store, data = find_suite(f"suite:{suite}"), new_store(tmp_path / "kit.db"), tmp_path / "data"
    with pytest.raises(UsageError, match="no run of suite 'mine'"):
        find_run(job, store, "aa", data)
    half = replace(_part("git:short", 7, "mine b 2"), status=INTERRUPTED)
    renamed = _part("git:short", 5, "mine b 3")  # the file had another task there
    imported = replace(_part("fsync:short", 6, "mine c 3"), imported=True)
    others = (half, renamed, imported, _part("fsync:short", 8, "mine c 3", machine="bb"))
    for session in (*others, *(_part("kernel:short", number, f"mine {run} 1") for number, run in enumerate("ab"))):
        record_begun(data, session, print)
        store.add(session)
    store.add(_part("kernel:short", 9, "mine d 1"))  # by another writer
    run, begun = find_run(job, store, "aa", data)
    assert run == "mine b" and {number: head.id for number, head in begun.items()} == {
        1: "kernel-short-001", 2: half.id,
    }  # fmt: skip
    bench = Bench()
    bench.sessions = {head.id: store.get(head.id) for head in begun.values()}
    parts = run_suite(replace(job, budget=600.0), run, begun, bench.runner)
    assert [name for name, budget in bench.log[:2] if budget is None] == ["kernel:short", "git:short"]
    assert bench.log[2][0] == "fsync:short" and all(map(_has_session, parts))


def _has_session(part: SuitePart) -> bool:
    return part.session is not None


def test_the_bundled_suite_names_scenarios_that_exist() -> None:
    job = find_suite("suite:storage")
    assert len(job.tasks) >= 8 and new_run(job).startswith("storage 2")
    for task in job.tasks:
        scenario = find_scenario(task.request.scenario)
        known = {param.name for param in scenario.params}
        assert {name for name, _ in task.request.params} <= known, task.name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("suite:nosuch",), "unknown suite 'nosuch'"),
        (("suite:storage", "--image", "x"), "--image does not work with a suite"),
        (("suite:storage", "--json", "x.json"), "--json does not work with a suite"),
        (("suite:storage", "--param", "a=b"), "no scenario of suite 'storage' has a parameter 'a'"),
        (("suite:storage", "--", "make"), "a command after -- does not work with a suite"),
        (("suite:storage", "--resume", "20260101"), "a suite continues its last run"),
        (("suite:storage", "--budget", "x"), "--budget x: not a time"),
    ],
)
def test_what_is_wrong_is_said(kit: Kit, words: tuple[str, ...], said: str) -> None:
    done = kit("compare", *words)
    assert done.returncode == 2 and said in done.stderr


def test_a_limit_is_for_nights(suite: Path) -> None:
    suite.write_text(SUITE + "thresholds = ['layer:overlay2 < 5 %']\n")
    with pytest.raises(UsageError, match="a suite has no thresholds"):
        find_suite(f"suite:{suite}")


def test_a_dry_run_lists_the_scenarios_with_their_arms(kit: Kit) -> None:
    done = kit("compare", "suite:storage", "--dry-run", "--arms", "bare,layer:vfs")
    assert done.returncode == 0, done.stderr
    assert "scenario 1: kernel:short: bare, bare+control, layer:vfs; at least 3 rounds" in done.stdout


def test_a_parameter_goes_to_the_scenarios_that_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = "[[tasks]]\nscenario='fsync'\nparams={count=5}\n[[tasks]]\nscenario='kernel'\n[[tasks]]\ncommand=['true']\n"
    (tmp_path / "mine.toml").write_text(tasks)
    found: list[Job] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kit.extra.history.nightly.command.describe", lambda job, noun: found.append(job))
    words = ["suite:mine.toml", "--dry-run", "--guest", "uml", "--param", "count=7", "--param", "config=defconfig"]
    compare.main(words, standalone_mode=False)
    requests = [task.request for task in found[0].tasks]
    assert [dict(each.params) for each in requests] == [{"count": "7"}, {"config": "defconfig"}, {}]
    assert {each.guest for each in requests} == {"uml"}


def test_settings_count_where_the_file_has_none_and_options_before_both(kit: Kit, tmp_path: Path) -> None:
    tasks = "[[tasks]]\nscenario='smoke'\n[[tasks]]\nscenario='git'\narms=['bare','layer:vfs']\n"
    (tmp_path / "mine.toml").write_text(tasks)
    (tmp_path / "config.toml").write_text('arms = ["bare", "layer:btrfs"]\n')
    words = ("compare", f"suite:{tmp_path}/mine.toml", "--dry-run")
    lines = kit(*words, KIT_HOME=str(tmp_path)).stdout.splitlines()
    assert len(lines) == 2 and "layer:btrfs" in lines[0] and "layer:vfs" in lines[1] and "layer:btrfs" not in lines[1]
    named = kit(*words, "--arms", "bare,layer:overlay2", KIT_HOME=str(tmp_path)).stdout
    assert named.count("layer:overlay2") == 2 and "layer:btrfs" not in named


def test_every_setting_counts_where_the_file_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text("[[tasks]]\nscenario='smoke'\n[[tasks]]\nscenario='git'\ntimeout='1h'\n")
    (tmp_path / "config.toml").write_text(
        "timeout='5m'\nsize='7G'\nrounds=2\nbudget='1m'\ncontrol=false\ncache='cold'\n[labels]\nteam='a'\n"
    )
    found: list[Job] = []
    monkeypatch.setenv("KIT_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kit.extra.history.nightly.command.describe", lambda job, noun: found.append(job))
    compare.main(["suite:mine.toml", "--dry-run", "--cache", "warm"], standalone_mode=False)
    first, second = (task.request for task in found[0].tasks)
    assert (first.timeout, second.timeout, first.size, first.cache) == (300, 3600, 7 * 2**30, "warm")
    assert (first.control, first.labels, first.rounds, first.budget) == (False, (("team", "a"),), 0, None)
    assert found[0].budget is None
