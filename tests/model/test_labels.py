"""Labels: one reader for the command line, nightly files and pytest; a session's facts have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.errors import UsageError
from kit.extra.history.nightly.file import parse_nightly
from kit.extra.pytest_plugin.runner import SessionRunner
from kit.model.options import read_options
from kit.model.session import Request
from kit.session.setup.facts import version_facts
from tests.command_line import in_fork

TASKS = '[[tasks]]\nscenario = "smoke"\n'


def facts(request: Request) -> dict[str, str]:
    return {item.key: item.text for item in version_facts(request)}


def test_labels_are_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SHA", "a" * 40)
    request = Request("smoke", **read_options({"labels": ["pr=17", "branch=a b=c", "pr=18"]}, "--"))
    assert facts(request) == {"label pr": "18", "label branch": "a b=c", "CI commit": "a" * 40}


def test_the_commit_is_that_of_the_sources_or_of_the_scenario_file(tmp_path: Path) -> None:
    (tmp_path / "own/.git").mkdir(parents=True)
    (tmp_path / "own/.git/HEAD").write_text("b" * 40)
    sources = facts(Request(command=("make",), source=str(tmp_path / "own")))
    file = facts(Request(scenario=str(tmp_path / "own/x.toml:short")))
    assert sources["source commit"] == file["source commit"] == "b" * 40
    for request in (
        Request("smoke"), Request(command=("make",), source="git:https://x/y"), Request(command=("x",), source="deb:y"),
    ):  # fmt: skip
        assert "source commit" not in facts(request)


def test_the_commit_of_a_command_without_sources_is_that_of_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("c" * 40)
    monkeypatch.chdir(tmp_path)
    assert facts(Request(command=("make",)))["source commit"] == "c" * 40


@pytest.mark.parametrize(
    ("given", "said"),
    [("x", "--label x: not KEY=VALUE"), ("a b=c", "--label a b: not a label's name"), ("a=b\nc", "--label a: not one"),
     (f"a={'x' * 201}", "200 printable")],
)  # fmt: skip
def test_a_wrong_label_is_refused(given: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        read_options({"labels": [given]}, "--")
    assert said in str(error.value)


def test_the_command_line_takes_labels() -> None:
    done = in_fork("compare", "smoke", "--dry-run", "--label", "pr=17", "--label", "wrong")
    assert done.returncode == 2 and "--label wrong: not KEY=VALUE" in done.stderr


def test_nightly_files_take_labels_as_a_table() -> None:
    text = f'[defaults.labels]\nsite = "x"\n{TASKS}[[tasks]]\nscenario = "smoke"\nlabels = {{ pr = 17 }}\n'
    job = parse_nightly(text, "n.toml", "n")
    assert [task.request.labels for task in job.tasks] == [(("site", "x"),), (("pr", "17"),)]
    for wrong, said in (("{ 'a b' = 1 }", "n.toml: task 1: labels a b: not a label"), ("{ a = [1] }", "labels.a is")):
        with pytest.raises(UsageError) as error:
            parse_nightly(f"{TASKS}labels = {wrong}\n", "n.toml", "n")
        assert said in str(error.value)


def test_pytest_takes_labels(pytester: pytest.Pytester) -> None:
    runner = SessionRunner(pytester.parseconfig("--kit-label", "pr=17", "--kit-label", "os=x"))
    assert runner.settings()["labels"] == (("pr", "17"), ("os", "x"))
    assert SessionRunner(pytester.parseconfig()).settings()["labels"] == ()
