"""Nightly files, and nights on the real machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kit.analysis.session.threshold import parse_threshold
from kit.core.errors import UsageError
from kit.core.exit_code import DONE, FAILED, NOT_RUN, OVER_LIMIT
from kit.extra.history.analysis.night import Night, Part, Task
from kit.extra.history.analysis.regression import CHANGE, Rule
from kit.extra.history.nightly.file import parse_nightly
from kit.extra.history.nightly.run import assess
from kit.extra.history.report.junit import render_junit
from kit.extra.history.report.night import render_night_json, render_summary
from kit.model.session import NotRun, Request
from kit.store import Store, open_store
from tests.command_line import Kit
from tests.nights import night
from tests.receiver import Receiver
from tests.stores import new_store

FILE = """\
store = "sqlite:////tmp/x.db"
output = "out"
budget = "2h"
wait_idle = "30m"
confirm = 4

[defaults]
rounds = 5
cache = "cold"

[[tasks]]
scenario = "kernel:short"
arms = ["bare", "layer:overlay2"]
params = { jobs = 2 }
thresholds = ["layer:overlay2 build < 10 %"]

[[tasks]]
command = ["make", "-j8"]
source = "/src"
precision = "2%"
budget = "20m"
cache = "warm"
ignore = ["sources"]
"""


def test_a_file_says_it_all() -> None:
    job = parse_nightly(FILE, "x.toml", "x")
    assert (job.store, job.output, job.budget, job.wait_idle, job.confirm) == (
        "sqlite:////tmp/x.db", "out", 7200, 1800, 4,
    )  # fmt: skip
    one, two = job.tasks
    assert one.request == Request(
        scenario="kernel:short", params=(("jobs", "2"),), arms=("bare", "layer:overlay2"), rounds=5, cache="cold",
        size=20 << 30, timeout=7200,
    )  # fmt: skip
    assert one.thresholds == (parse_threshold("layer:overlay2 build < 10 %"),)
    assert (two.request.command, two.request.precision, two.request.budget) == (("make", "-j8"), 0.02, 1200)
    assert (two.request.cache, two.request.rounds, two.across) == ("warm", 5, ("sources",))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x =", "Invalid value"),
        ("", "no \\[\\[tasks\\]\\]"),
        ("nosuch = 1\n", "unknown key 'nosuch'"),
        ("confirm = 1\n[[tasks]]\nscenario='smoke'", "one noisy night"),
        ("budget = 5\n[[tasks]]\nscenario='smoke'", "budget must be a string"),
        ("[[tasks]]\narms = ['bare']", "give either scenario or command"),
        ("[[tasks]]\nscenario='smoke'\ncommand=['x']", "give either scenario or command"),
        ("[[tasks]]\nscenario='smoke'\narms=['layer:nosuch']", "task 1: arm .*unknown driver"),
        ("[[tasks]]\nscenario='smoke'\narms='bare'", "arms must be a list"),
        ("[[tasks]]\nscenario='smoke'\narms=[1]", "list of strings"),
        ("[[tasks]]\nscenario='smoke'\narms='bare, layer:vfs'", r'fix: write arms = \["bare", "layer:vfs"\]$'),
        ("[[tasks]]\ncommand='npm run \"a b\"'", r'fix: write command = \["npm", "run", "a b"\]$'),
        ("[[tasks]]\ncommand='echo \"'", r'fix: write command = \["sh", "-c", "echo \\""\]$'),
        ("[notify]\nurls='json://secret'\n[[tasks]]\nscenario='smoke'", "fix: see kit nightly --help for an example$"),
        ("[[tasks]]\nscenario='smoke'\nrounds=true", "rounds must be a whole number"),
        ("[[tasks]]\nscenario='smoke'\nrounds=0", "rounds = 0"),
        ("[[tasks]]\nscenario='smoke'\nprecision='fine'", "task 1: precision fine"),
        ("[[tasks]]\nscenario='smoke'\ncache='hot'", "cache = 'hot'"),
        ("[[tasks]]\nscenario='smoke'\non='fire'", "on = 'fire'"),
        ("[[tasks]]\nscenario='smoke'\nthresholds=['x']", "task 1: threshold 'x'"),
        ("[[tasks]]\nscenario='smoke'\narms=['bare']\nthresholds=['layer:overlay2 < 1 %']", "its arm is not in"),
    ],
)
def test_bad_files(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_nightly(text, "x.toml", "x")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "kit.db")


TASK = Task(
    Request(scenario="mine"), (parse_threshold("layer:overlay2 < 10 %"), parse_threshold("layer:overlay2 clean < 50 %"))
)


ON_CHANGE = Rule(CHANGE)


def the_night(store: Store, penalties: list[float], rule: Rule = ON_CHANGE) -> Night:
    for i, penalty in enumerate(penalties):
        store.add(night(i, penalty))
    return Night("mine", 1e9, (assess(TASK, store.get("last"), store, rule),))


def test_a_regression_ends_with_5_and_every_report_says_so(store: Store) -> None:
    found = the_night(store, [0.05] * 8 + [0.2] * 3)
    assert found.exit_code == OVER_LIMIT == 5
    summary = render_summary(found)
    assert summary.startswith("## mine: REGRESSION") and "**REGRESSION: layer:overlay2 < 10 %" in summary
    assert "change point at 2026-0008" in summary
    root = ElementTree.fromstring(render_junit(found))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "1", "0")
    failed = root.find(".//testcase/failure/..")
    assert failed is not None and failed.get("name") == "layer:overlay2 < 10 %"
    document = json.loads(render_night_json(found))
    assert (document["exit_code"], document["tasks"][0]["thresholds"][0]["status"]) == (5, "regression")
    histories = document["tasks"][0]["histories"]
    assert [len(item["changes"]) for item in histories] == [1, 0]  # of the whole run, and of the phase of a threshold
    assert histories[0]["changes"][0]["index"] == 8


def test_one_noisy_night_ends_with_0(store: Store) -> None:
    found = the_night(store, [0.05] * 8 + [0.5])
    assert found.exit_code == 0
    summary = render_summary(found)
    assert summary.startswith("## mine: suspect") and "**SUSPECT: layer:overlay2 < 10 %" in summary


def test_a_penalty_above_its_limit_fails_the_first_night(store: Store) -> None:
    found = the_night(store, [15.35], Rule())
    assert found.exit_code == OVER_LIMIT
    summary = render_summary(found)
    assert summary.startswith("## mine: OVER ITS LIMIT") and "**OVER: layer:overlay2 < 10 %" in summary
    assert ElementTree.fromstring(render_junit(found)).get("failures") == "1"
    assert json.loads(render_night_json(found))["tasks"][0]["thresholds"][0]["fails"] is True


def test_a_job_judges_all_its_thresholds_simultaneously() -> None:
    job = parse_nightly(FILE.replace("params = { jobs = 2 }", 'params = { jobs = "1,2,4" }\non = "change"'), "x", "x")
    assert job.rule(job.tasks[0]) == Rule(CHANGE, 4, 3)
    assert job.rule(job.tasks[1]).on == "limit"


def test_a_changed_machine_is_named_and_is_no_regression(store: Store) -> None:
    for i in range(8):
        store.add(night(i, 0.05))
    store.add(night(8, 0.2, kernel="6.2"))
    found = Night("mine", 1e9, (assess(TASK, store.get("last"), store, ON_CHANGE),))
    assert found.exit_code == 0
    assert "a new series begins: kernel: 6.1 → 6.2" in render_summary(found)


def test_a_night_whose_server_is_away_is_kept_and_not_judged(tmp_path: Path) -> None:
    away = open_store("postgresql+psycopg://kit@127.0.0.1:1/kit", tmp_path / "kit.db", patient=True)
    found = Night("mine", 1e9, (assess(TASK, night(1, 0.05), away, ON_CHANGE),))
    assert found.exit_code == FAILED and "not compared with its history" in render_summary(found)


def test_what_could_not_run_ends_with_3(store: Store) -> None:
    session = night(1, 0.05)
    blocked = replace(
        session, samples=tuple(item for item in session.samples if item.arm == "bare"),
        not_run=(NotRun("layer:overlay2", "no overlay", "boot another"),),
    )  # fmt: skip
    store.add(blocked)
    found = Night("mine", 1e9, (assess(TASK, store.get("last"), store, ON_CHANGE),))
    assert found.exit_code == NOT_RUN == 3
    root = ElementTree.fromstring(render_junit(found))
    assert (root.get("errors"), root.get("skipped")) == ("2", "1")
    assert "no overlay" in render_summary(found)
    none = Night("mine", 1e9, (Part(TASK, error="no\x00image\n  fix: build it"),))
    assert none.exit_code == NOT_RUN and "could not run" in render_summary(none)
    assert ElementTree.fromstring(render_junit(none)).get("errors") == "1"


def test_an_arm_of_the_file_that_did_not_run_fails_the_night_also_without_a_limit(store: Store) -> None:
    session = replace(night(1, 0.05), not_run=(NotRun("layer:aufs", "no aufs", "boot another"),))
    store.add(session)
    for arms, code in ((("bare", "layer:aufs"), NOT_RUN), ((), DONE)):
        task = replace(TASK, request=replace(TASK.request, arms=arms))
        found = Night("mine", 1e9, (assess(task, replace(session, request=task.request), store, Rule()),))
        assert found.exit_code == code
        assert ("mine: layer:aufs not run: no aufs" in render_summary(found)) == bool(arms)


@pytest.mark.parametrize("words", [("nosuch.toml",), ("bad.toml",), ("arm.toml", "--check")])
def test_files_that_can_not_be_run_end_with_2(kit: Kit, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "bad.toml").write_text("nosuch = 1")
    (tmp_path / "arm.toml").write_text("[[tasks]]\nscenario='smoke'\nthresholds=['bind:overlay2@xfs < 1 %']")
    done = kit("nightly", tmp_path / words[0], *words[1:], "--output", tmp_path / "out")
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("kit: ") and "Traceback" not in done.stderr and "fix: " in done.stderr


@pytest.mark.machine
@pytest.mark.unmeasured
def test_nights_on_the_real_machine(kit: Kit, tiny: Path, tmp_path: Path, receiver: Receiver) -> None:
    """A workload that one night begins to be slower on overlay: suspect the first time, a regression the next. By so
    much, and its limit so far from both, that other workers' tests don't hide it."""
    project = tmp_path / "project"
    project.mkdir()
    file = tmp_path / "builds.toml"
    file.write_text(f"""
        store = "sqlite:///{tmp_path}/night.db"
        output = "{tmp_path}/out"
        confirm = 2
        [notify]
        urls = ["env:CHAT"]
        [[tasks]]
        on = "change"
        command = ["sh", "./run.sh"]
        source = "{project}"
        image = "{tiny}"
        arms = ["bare", "union:overlay", "layer:aufs"]
        cache = "cold"
        rounds = 3
        rerun = false
        ignore = ["sources"]
        thresholds = ["union:overlay < 200 %"]
        """)
    quick = "busybox sleep 0.2\n"
    slow = quick + "test $(busybox stat -f -c %t .) = 794c7630 && busybox sleep 2; true\n"
    codes: list[int] = []
    results: list[str] = []
    summary = tmp_path / "step.md"
    for script in (quick, quick, quick, quick, slow, slow):
        if not codes or (project / "run.sh").read_text() != script:  # its time belongs to the input, too
            (project / "run.sh").write_text(script)
        done = kit("nightly", file, "-q", GITHUB_STEP_SUMMARY=str(summary))
        codes.append(done.returncode)
        document = json.loads((tmp_path / "out/nightly.json").read_text())
        results.append(document["tasks"][0]["thresholds"][0]["status"])
    assert codes == [NOT_RUN] * 5 + [OVER_LIMIT] and results[4:] == ["suspect", "regression"], done.stdout
    assert set(results[:4]) <= {"good", "undecided"} and "good" in results  # where something else disturbed a night
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "junit.xml", "summary.md", "report.html", "nightly.json",
    }  # fmt: skip
    begun, regressed = (message["message"].partition("\n\n")[0] for message in receiver.got)
    assert begun == "sh ./run.sh: layer:aufs: ok → failed"
    assert regressed == "sh ./run.sh: union:overlay < 200 %: ok → limit broken"
    assert summary.read_text().count("## builds:") == 6 and "REGRESSION" in done.stdout
    assert "input source changed" in summary.read_text()
    page = (tmp_path / "out/report.html").read_text()
    assert "regression" in page and 'class="change"' in page
    url = f"sqlite:///{tmp_path}/night.db"
    history = kit("history", "sh ./run.sh", "union:overlay", "--store", url)  # ignores and confirms as the nights do
    assert history.returncode == 0 and "▲" in history.stdout and "change point at" in history.stdout
    several = kit("history", "sh ./run.sh", "union:overlay", "--all", "--ignore", "", "--store", url)
    assert "2 series" in several.stdout and "input source changed" in several.stdout
