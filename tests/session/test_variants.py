"""Several commands and revisions in one session: what is stored, exported, run, and compared."""

from __future__ import annotations

import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.errors import UsageError
from kit.host.git import opened
from kit.host.machine import read_host
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from kit.model.scenario import Command, command_scenario
from kit.model.session import NotRun, Request
from kit.session.inputs.input_cache import PreparedInput
from kit.session.inputs.sources import prepare_input
from kit.session.measure.workload import Workload
from kit.session.plan.planning import prepare, prepare_begun
from kit.session.start import new_session
from tests.command_line import in_fork
from tests.fake_engine import FakeEngine, execute, scenario
from tests.needs import needs
from tests.repository import git, make_repository

needs_git = needs("git")
TWO = (("a", "one"), ("b", "fail"))


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("interleave", ["off", "0.5s"])
def test_each_arm_runs_its_own_command_and_samples_are_comparable(tmp_path: Path, interleave: str) -> None:
    engine = FakeEngine(tmp_path)
    arms = parse_arms("bare+command=a,bare+command=b,layer:vfs+command=b")
    plan = make_plan(arms, SessionOptions(rounds=1, seed=3, cache="cold", control=False, interleave=interleave))
    work = replace(scenario("x"), phases=(Command("run", ("{command}",)),), commands=TWO)
    session, _ = execute(tmp_path, engine, plan, work)
    found = {sample.arm: sample for sample in session.samples}
    assert {name: sample.status for name, sample in found.items()} == {
        "bare+command=a": "ok", "bare+command=b": "failed", "layer:vfs+command=b": "failed",
    }  # fmt: skip
    assert found["bare+command=b"].error.startswith("run failed with exit status 2")
    of = {name: dict(sample.digests) for name, sample in found.items()}
    assert {digests["scenario"] for digests in of.values()} == {work.digest}
    assert "command a" in of["bare+command=a"] and "command a" not in of["bare+command=b"]
    assert of["bare+command=b"]["command b"] == of["layer:vfs+command=b"]["command b"]


def test_a_shell_runs_the_command_with_the_session_s_names() -> None:
    work = command_scenario((), commands=(("a", "make -j{cores} ${x} 'y z'"),), prepare="touch x").bind({}, 3)
    assert [step.run for step in work.phases] == [("sh", "-c", "{command}")]
    assert work.commands == (("a", "make -j3 ${x} 'y z'"),)
    assert work.digest == command_scenario((), commands=TWO, prepare="touch x").bind({}, 1).digest


def test_each_arm_has_its_own_revision() -> None:
    work = command_scenario(("x",), "/src", revisions=(("old", "a" * 40), ("new", "b" * 40)))
    assert [(item.source[-41:], item.revision) for item in work.inputs] == [
        (f"#{'a' * 40}", "old"), (f"#{'b' * 40}", "new"),
    ]  # fmt: skip
    assert work.digest == command_scenario(("x",), "/src").digest
    made = tuple(PreparedInput("source", "tree", Path(name), name, name) for name in ("old", "new"))
    (old,) = parse_arms("bare+rev=old")
    mine = Workload(work, None, made).of(old)
    assert mine.inputs == made[:1]
    assert ("input source old", "old") in mine.digests(old)


@needs_git
def test_a_revision_is_exported_once_without_what_is_not_committed(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "re#po")
    with opened(str(repository), "--source-rev") as view:
        commits = [view.find_revision(name, "--source-rev") for name in ("v1", "main")]
    assert commits == [git(repository, "rev-parse", "HEAD~1"), git(repository, "rev-parse", "HEAD")]
    work = command_scenario(("x",), str(repository), revisions=(("old", commits[0]), ("new", commits[1])))
    told: list[str] = []
    made = [prepare_input(item, tmp_path / "cache", told.append) for item in (*work.inputs, *work.inputs)]
    assert len(told) == 2 and made[:2] == made[2:]
    for item, number in zip(made, ("1", "2"), strict=False):
        with tarfile.open(item.path) as tar:
            file = tar.extractfile("number")
            assert tar.getnames() == ["number"] and file is not None and file.read().decode() == number


@needs_git
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others")
def test_root_reads_the_repository_of_the_user_behind_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(tmp_path / "project")
    head = git(repository, "rev-parse", "main")
    for path in (repository, *repository.rglob("*")):
        os.chown(path, 12345, 12345)
    monkeypatch.setenv("SUDO_UID", "12345")
    with opened(str(repository), "--source-rev") as view:
        assert view.find_revision("main", "--source-rev") == head


@needs_git
def test_a_session_keeps_commits_and_runs_them_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(tmp_path / "project")
    monkeypatch.chdir(tmp_path)
    request = Request(
        commands=TWO, source="project", revisions=(("old", "v1"), ("new", "main")), arms=("bare",), seed=1
    )
    host = replace(read_host(), root=True)
    prepared = prepare(request, host)
    session = new_session(prepared)
    commit = git(tmp_path / "project", "rev-parse", "v1")
    assert session.request.source == f"{tmp_path}/project" and dict(session.request.revisions)["old"] == commit
    assert session.facts["source commit of old"] == commit and "source commit" not in session.facts
    assert session.facts["command b"] == "fail"
    assert session.facts["default reference"] == "bare+command=a+rev=old" and len(session.arms) == 5
    git(tmp_path / "project", "tag", "-f", "v1", "main")
    monkeypatch.chdir("/")
    again = prepare_begun(session, host)
    assert again.scenarios == prepared.scenarios and again.plan == prepared.plan
    with pytest.raises(UsageError, match="no command 'b' in this session"):
        prepare_begun(replace(session, request=replace(session.request, commands=TWO[:1])), host)


@needs_git
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--source-rev", "v9", "--source", "project"), "--source-rev v9: no such revision in "),
        (("--source-rev", "--all", "--source", "project"), "--source-rev --all: no such revision in "),
        (("--source-rev", "main,main", "--source", "project"), "--source-rev: two are called 'main'"),
        (("--source-rev", "main", "--source", "."), "not a git repository"),
        (("--source-rev", "main", "--source", "nosuch"), "nosuch"),
        (("--source-rev", "main"), "--source-rev needs a Git repository and a command"),
        (("--command", "make", "--command", "make"), "--command: two are called 'make'"),
        (("--command", "a=true", "smoke"), "a session needs one scenario, or one command"),
        (("--command", "a=true", "--arms", "bare+command=b"), "no command 'b' in this session"),
        (("--command", "a=true", "--arms", "bare", "--baseline", "bare+command=b"), "no command 'b'"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    make_repository(tmp_path / "project")
    command = () if "--command" in words else ("--", "true")
    here = tuple(str(tmp_path / word) if word in ("project", ".", "nosuch") else word for word in words)
    done = in_fork("compare", "--dry-run", *here, *command)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) <= 2 and done.stdout == ""


@needs_git
def test_a_dry_run_shows_commands_commits_and_arms(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project")
    words = ("--command", "a=make -j2", "--command", "make -j4", "--arms", "bare,layer:overlay2", "--rounds", "2")
    said = in_fork("compare", "--dry-run", *words).stdout
    assert "  a: make -j2\n  make-j4: make -j4\n" in said and "2 rounds, 8 runs" in said
    assert "  layer:overlay2+command=make-j4, vs bare+command=make-j4\n" in said
    revisions = ("--source", repository, "--source-rev", "v1,main", "--arms", "bare", "--", "make")
    said = in_fork("compare", "--dry-run", *revisions).stdout
    assert f"  main: {git(repository, 'rev-parse', 'main')}\n" in said
    assert "  bare+rev=main, vs bare+rev=v1\n" in said


def test_an_arm_that_was_named_without_a_command_is_missed_with_each() -> None:
    request = Request(commands=TWO, arms=("bare", "layer:vfs"), seed=1)
    session = new_session(prepare(request, replace(read_host(), root=True)))
    blocked = replace(session, not_run=(NotRun("layer:vfs+command=a", "no", "none"),))
    assert [item.arm for item in blocked.missed(request.arms)] == ["layer:vfs+command=a"]
    assert not blocked.missed(("bare",))
