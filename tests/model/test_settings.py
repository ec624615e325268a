"""Settings: which file holds, what the command line and pytest make of it, and what is refused."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from kit.cli.compare import compare
from kit.core.errors import UsageError
from kit.extra.pytest_plugin.runner import SessionRunner
from kit.host.mounts import Mount
from kit.host.settings_files import find_settings
from kit.model.options import OPTIONS, SHARED, SessionOptions, read_options
from kit.model.settings import KEYS, ConfigEntry, merged, option_values, read_settings
from tests.command_line import in_fork
from tests.ordinary_user import ordinary_user

FILE = """\
# ours
rounds = 5
margin = "2%"
arms = ["bare", "layer:btrfs"]
control = false
labels.site = "x"
"""


def values(settings: dict[str, ConfigEntry]) -> dict[str, object]:
    return {key: item.value for key, item in settings.items()}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directories of a project and a user, neither with settings; the current directory is below the project."""
    (tmp_path / "home").mkdir()
    (tmp_path / "project/below").mkdir(parents=True)
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KIT_STORE", raising=False)
    monkeypatch.chdir(tmp_path / "project/below")
    return tmp_path / "project"


def test_settings_have_lines() -> None:
    found = {item.key: item for item in read_settings(FILE, "kit.toml")}
    assert {key: item.where for key, item in found.items()} == {
        "rounds": "kit.toml:2", "margin": "kit.toml:3", "arms": "kit.toml:4", "control": "kit.toml:5",
        "labels": "kit.toml:6",
    }  # fmt: skip
    text = f"[tool.other]\nrounds = 1\n[tool.kit]\n{FILE}\n"
    assert [item.where for item in read_settings(text, "p.toml", "tool.kit")][:2] == ["p.toml:5", "p.toml:6"]
    (item,) = read_settings('[labels]\nsite = "x"\n', "kit.toml")
    assert (item.where, item.value) == ("kit.toml:1", {"site": "x"})
    assert read_settings("[tool.other]\nx = 1\n", "p.toml", "tool.kit") == ()


def test_options_get_what_a_user_would_write() -> None:
    assert option_values(merged(read_settings(FILE, "kit.toml"))) == {
        "rounds": "5", "margin": "2%", "arms": "bare,layer:btrfs", "control": False, "labels": ["site=x"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nround = 5\n", "kit.toml:2: unknown key 'round'; use one of: arms, "),
        ("margin = 'x'\n", "kit.toml:1: margin x: not a percentage; use"),
        ("rounds = []\n", "kit.toml:1: rounds must be a whole number"),
        ("cache = 'tepid'\n", "kit.toml:1: unknown cache = 'tepid'; use one of: warm, cold"),
        ("interleave = 'x'\n", "kit.toml:1: "),
        ("title = 'x'\n", "kit.toml:1: unknown key 'title'"),
        ("labels = { pr = [] }\n", "kit.toml:1: labels.pr is neither text nor a number"),
        ("labels = { 'a b' = 'x' }\n", "kit.toml:1: labels a b: not a label's name"),
        ("x = \n", "kit.toml: not valid TOML"),
    ],
)
def test_wrong_settings_are_named_with_file_line_and_fix(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        read_settings(text, "kit.toml")
    assert f"{error.value.message}; {error.value.hint}".startswith(said)


def test_the_order_of_files(project: Path, tmp_path: Path) -> None:
    assert find_settings() == {}
    (tmp_path / "home/config.toml").write_text('rounds = 1\nmargin = "1%"\ncache = "cold"\nlabels = {a="1", b="1"}\n')
    (project / "pyproject.toml").write_text('[tool.kit]\nrounds = 2\nmargin = "2%"\n')
    (project / "kit.toml").write_text('rounds = 3\nlabels = {b="3"}\n')
    (tmp_path / "kit.toml").write_text("rounds = 4\ncontrol = true\n")  # above the nearest
    found = find_settings()
    labels = {"a": "1", "b": "3"}
    assert values(found) == {"rounds": 3, "margin": "2%", "cache": "cold", "labels": labels}
    assert found["rounds"].where == f"{project}/kit.toml:1"
    (project / "below/pyproject.toml").write_text("[tool.other]\n")
    (project / "below/broken").write_text("")
    assert find_settings() == found
    (project / "below/pyproject.toml").write_text("[tool.kit]\nrounds = 6\n")
    assert values(find_settings())["rounds"] == 6


def test_a_broken_file_of_another_program_is_passed_over(project: Path) -> None:
    (project / "pyproject.toml").write_text("[project\n")
    assert find_settings() == {}
    (project / "kit.toml").write_text("[x\n")
    with pytest.raises(UsageError, match=r"kit\.toml: not valid TOML"):
        find_settings()


def test_only_the_kits_own_table_has_settings(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.kit]\nrounds = 2\n")
    (project / "below/pyproject.toml").write_text("[tool.kitty]\nx = 1\n")
    assert values(find_settings()) == {"rounds": 2}
    (project / "below/pyproject.toml").write_text('[tool.kit.labels]\nsite = "x"\n')
    assert values(find_settings()) == {"labels": {"site": "x"}}


def test_a_missing_current_directory_has_no_settings(project: Path, tmp_path: Path) -> None:
    (tmp_path / "home/config.toml").write_text("rounds = 1\n")
    (project / "below").rmdir()
    assert values(find_settings()) == {"rounds": 1}


def test_an_unreadable_current_directory_has_no_settings(project: Path) -> None:
    (project / "below/kit.toml").write_text("rounds = 2\n")
    (project / "below").chmod(0)
    with ordinary_user():
        assert find_settings() == {}


def refused(says: str) -> None:
    with pytest.raises(UsageError, match=says) as error:
        find_settings()
    assert not re.search("chown|sudo", error.value.hint), "a hint never asks to trust what another user has written"


@pytest.mark.promise("another user", "The kit obeys no settings that others may have written.")
def test_files_of_others_are_refused(project: Path, tmp_path: Path) -> None:
    path = project / "kit.toml"
    path.write_text("rounds = 3\n")
    for mode in (0o666, 0o646):
        path.chmod(mode)
        refused("is a file to which others may write")
    path.chmod(0o644)
    os.link(path, tmp_path / "also")  # a second name changes nothing: who may write to the file decides
    assert values(find_settings()) == {"rounds": 3}
    path.rename(project / "mine.toml")
    path.symlink_to("mine.toml")
    refused("kit.toml: a link")


@pytest.mark.promise("another user", "The kit obeys no settings that others may have written.")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
@pytest.mark.parametrize("name", ["kit.toml", "pyproject.toml"])
def test_only_files_of_this_user_and_its_directories_are_obeyed(
    project: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "below" / name
    path.write_text("[tool.kit]\nrounds = 3\n" if name == "pyproject.toml" else "rounds = 3\n")
    for place in (path, project / "below", project):
        os.chown(place, 4321, 4321)
        refused(f"{place} belongs to user 4321")
        monkeypatch.setenv("SUDO_UID", "4321")
        assert values(find_settings()) == {"rounds": 3}
        monkeypatch.setenv("SUDO_UID", "nobody")
        refused(f"{place} belongs to user 4321")
        monkeypatch.delenv("SUDO_UID")
        os.chown(place, 0, 4321)
        mode = place.stat().st_mode
        place.chmod(mode | 0o020)
        refused(f"{place} is a (file|directory) to which others may write")
        place.chmod(mode)
        os.chown(place, 0, 0)
    assert values(find_settings()) == {"rounds": 3}


@pytest.mark.promise("another user", "The kit obeys no settings that others may have written.")
def test_everybodys_directories_have_no_settings(project: Path) -> None:
    """A file in /tmp must not stop, or change, what others measure below it."""
    (project / "kit.toml").write_text("rounds = 3\n")
    for mode in (0o1777, 0o777):
        project.chmod(mode)
        assert find_settings() == {}


@pytest.mark.promise("another user", "The kit obeys no settings that others may have written.")
def test_a_file_whose_owner_did_not_write_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel shows texts of other processes in files of root's."""
    path = tmp_path / "kit.toml"
    path.write_text("rounds = 3\n")
    device = f"{os.major(path.stat().st_dev)}:{os.minor(path.stat().st_dev)}"
    monkeypatch.chdir(tmp_path)
    for kind, shared in (("proc", "rw"), ("fuse.sshfs", "rw,user_id=4321,group_id=0")):
        table = (Mount(device, Path("/x"), kind, "x", "rw", shared),)
        monkeypatch.setattr("kit.host.settings_files.read_mounts", lambda table=table: table)
        refused(f"it lies on {kind}")


def test_kit_config_shows_what_holds_and_from_where(project: Path, tmp_path: Path) -> None:
    done = in_fork("config")
    assert done.stdout.startswith("no settings; make kit.toml here") and done.returncode == 0, done.stderr
    (project / "kit.toml").write_text('rounds = 3\nstore = "postgresql+psycopg://a:secret@db/kit"\n')
    done = in_fork("config")
    lines = done.stdout.splitlines()
    assert "secret" not in done.stdout and len(lines) == 4
    assert lines[3].split() == ["rounds", "3", f"{project}/kit.toml:1"]
    done = in_fork("config", "--all", "--json", KIT_STORE="sqlite:////x.db")
    document = json.loads(done.stdout)
    assert document["files"] == [f"{project}/kit.toml"] and set(document["settings"]) == set(KEYS)
    assert document["settings"]["store"] == {"value": "sqlite:////x.db", "from": "KIT_STORE"}
    assert document["settings"]["rounds"] == {"value": 3, "from": f"{project}/kit.toml:1"}
    assert document["settings"]["cache"] == {"value": "warm", "from": "default"}
    (project / "kit.toml").write_text("round = 3\n")
    done = in_fork("config")
    assert done.returncode == 2 and f"{project}/kit.toml:1: unknown key 'round'" in done.stderr


def test_kit_compare_follows_the_settings(project: Path) -> None:
    (project / "kit.toml").write_text('rounds = 7\narms = ["host@dir"]\ncache = "cold"\nmargin = "4%"\n')
    words = ("compare", "smoke", "--dry-run")
    assert "7 rounds, 7 runs, caches cold" in in_fork(*words).stdout
    assert "2 rounds, 2 runs, caches warm" in in_fork(*words, "--rounds", "2", "--cache", "warm").stdout
    assert in_fork("compare", "--help").returncode == 0
    (project / "kit.toml").write_text("round = 7\n")
    done = in_fork(*words)
    assert done.returncode == 2 and "unknown key 'round'" in done.stderr
    assert in_fork("compare", "--help").returncode == 0


def test_labels_of_the_command_line_add_to_those_of_files(project: Path) -> None:
    (project / "kit.toml").write_text("[labels]\nteam = 7\npr = 1\n")
    context = compare.make_context("compare", ["smoke", "--label", "pr=2"])
    assert read_options(context.params, "--")["labels"] == (("team", "7"), ("pr", "2"))


def test_the_command_line_can_undo_each_switch_of_a_file() -> None:
    switches = {key for key in KEYS if key in OPTIONS and OPTIONS[key].kind is bool}
    undone = {name for item in compare.params for name in item.secondary_opts}
    assert switches and {f"--no-{key}" for key in switches} <= undone


def test_the_help_of_pytests_own_settings_is_right(pytester: pytest.Pytester) -> None:
    said = " ".join(pytester.runpytest("--help").stdout.str().split())
    assert "kit_rerun (string): false: the same as --kit-no-rerun" in said
    assert "kit_profile (string): the same as --kit-profile" in said


def test_the_store_of_the_settings_is_used(project: Path, tmp_path: Path) -> None:
    (project / "kit.toml").write_text(f'store = "sqlite:///{tmp_path}/ours.db"\n')
    assert in_fork("sessions").returncode == 0 and (tmp_path / "ours.db").exists()
    assert in_fork("sessions", KIT_STORE=f"sqlite:///{tmp_path}/other.db").returncode == 0
    assert (tmp_path / "other.db").exists()


def test_pytest_takes_its_own_settings_before_the_kits(project: Path, pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nkit_margin = 4%\nkit_explain_calls = true\nkit_rerun = false\nkit_seed = 7\n"
        "kit_labels =\n  a=1\n  b=2\n"
        f"kit_store = sqlite:///{pytester.path}/ours.db\n"
    )
    (pytester.path / "kit.toml").write_text(
        'rounds = 3\nmargin = "2%"\ncache = "cold"\nlabels.a = "0"\nlabels.pr = 17\narms = ["bare"]\n'
    )
    runner = SessionRunner(pytester.parseconfig("--kit-cache", "warm", "--kit-label", "c=3"))
    found = runner.settings()
    assert (found["rounds"], found["margin"], found["cache"]) == (3, 0.04, "warm") and "arms" not in found
    assert (found["explain_calls"], found["rerun"], found["seed"]) == (True, False, 7)
    assert found["labels"] == (("a", "1"), ("pr", "17"), ("b", "2"), ("c", "3"))
    assert runner.store.name.endswith("ours.db")


def test_pytest_without_settings_has_the_defaults(project: Path, pytester: pytest.Pytester) -> None:
    found = SessionRunner(pytester.parseconfig()).settings()
    options = SessionOptions(**found)
    assert options == SessionOptions() and set(found) <= set(SHARED)
    assert (options.rounds, options.margin, options.cache, options.interleave) == (0, 0.03, "warm", "auto")


@pytest.mark.parametrize(
    ("line", "said"),
    [("kit_profile = maybe", "kit_profile: 'maybe' is not true or false"), ("kit_cache = x", "kit_cache: unknown"),
     ("kit_seed = x", "kit_seed: 'x' is not a whole"), ("kit_margin = x", "--kit-margin x: not a percentage")],
)  # fmt: skip
def test_wrong_settings_of_pytest_are_named(line: str, said: str, project: Path, pytester: pytest.Pytester) -> None:
    pytester.makeini(f"[pytest]\n{line}\n")
    with pytest.raises(UsageError) as error:
        SessionRunner(pytester.parseconfig()).settings()
    assert said in str(error.value)
