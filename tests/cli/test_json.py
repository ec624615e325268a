"""``--json FILE``: every command that lists or compares has it, and what it writes fits the published schema."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import click
import pytest

from kit.analysis.session.analyse import analyse
from kit.analysis.session.threshold import parse_threshold
from kit.cli import COMMANDS, cli
from kit.cli.schemas import DOCUMENTS
from kit.core.codec import encode_json
from kit.core.paths import find_paths
from kit.extra.history.analysis.night import Night, Part, Task
from kit.extra.history.analysis.regression import missing
from kit.extra.history.renderers import NIGHT
from kit.extra.history.report.night import render_night_json
from kit.extra.history.tracks import find_tracks
from kit.model.machine import Member
from kit.report.renderer import find
from kit.session.trial import Diagnosis
from tests.command_line import Kit
from tests.json_schemas import check_document, published
from tests.nights import ladder_session, night, on
from tests.stored import SAMPLE, SESSION
from tests.stores import new_store

ROOT = Path(__file__).parents[2]
#: Commands whose JSON needs a machine or a fleet; tests of theirs check it.
ELSEWHERE = {"compare", "import", "nightly", "doctor", "fleet status"}
#: What each other command is called with.
WORDS = {
    "show": ("full",), "sessions": (), "history": ("mine", "layer:overlay2"), "scenarios": (), "sync": (),
    "compare-sessions": ("2026-0001", "2026-0013"), "prune": ("--keep", "1h", "--keep-changes", "--dry-run"),
    "config": (), "image list": (), "kernel list": (), "fleet show": ("mine",),
    "matrix": ("--scenario", "mine & <yours>"),
}  # fmt: skip
NAMES = {"show": "session", "image list": "images", "kernel list": "kernels", "fleet show": "fleet-show"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("json") / "kit.db"
    store = new_store(path)
    commits = {True: "a" * 40, False: "b" * 40}
    store.add_new(night(i, 0.1 if i < 7 else 0.2, **{"source commit": commits[i < 7]}) for i in range(14))
    store.add_new(on(machine, 1, 0.1 + machine / 100) for machine in range(4))
    store.add(replace(ladder_session(), id="full"))
    traced = replace(SAMPLE, kind="traced", round=2)
    store.add(replace(SESSION, status="done", samples=(SAMPLE, traced, replace(SAMPLE, kind="warmup", started=0.5))))
    store.close()
    return path


@pytest.fixture
def url(filled: Path, tmp_path: Path) -> str:
    shutil.copy(filled, tmp_path)
    return f"sqlite:///{tmp_path}/kit.db"


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli, info_name="kit")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command
        if isinstance(command, click.Group):
            below = click.Context(command, info_name=name)
            for item in command.list_commands(below):
                found = command.get_command(below, item)
                assert found
                yield f"{name} {item}", found
        else:
            yield name, command


def test_commands_that_have_a_table_have_json() -> None:
    having = {name for name, item in commands() if any("--json" in option.opts for option in item.params)}
    assert having == set(WORDS) | ELSEWHERE
    formats = {name for name, item in commands() if any("--format" in option.opts for option in item.params)}
    assert formats - having == {"export"}


@pytest.mark.parametrize("name", WORDS)
def test_what_a_command_writes_fits_its_schema(name: str, url: str, kit: Kit, tmp_path: Path) -> None:
    _fill_caches(find_paths().cache)
    words = (*name.split(), *WORDS[name])
    env = {"KIT_STORE": url}
    printed = kit(*words, "--json", "-", **env)
    assert printed.returncode == 0, printed.stderr
    document = check_document(NAMES.get(name, name), printed.stdout)
    plain = kit(*words, **env)
    written = kit(*words, "--json", tmp_path / "out.json", **env)
    assert written.stdout == plain.stdout and json.loads((tmp_path / "out.json").read_text()) == document
    lists = [value for value in document.values() if isinstance(value, list)]
    assert any(lists) or name in ("sync", "config")


def _fill_caches(cache: Path) -> None:
    image, kernel = cache / "images/mine-1", cache / "kernels/aufs-uml-1"
    for directory in (image, kernel):
        directory.mkdir(parents=True, exist_ok=True)
    (image / "rootfs.tar").write_text("x")
    facts = {"name": "mine", "digest": "d" * 64, "origin": "here", "size": 1, "created": 1.0, "env": [["PATH", "/bin"]]}
    (image / "image.json").write_text(json.dumps(facts))
    (kernel / "kernel").write_text("x")
    about = {"recipe": "aufs", "machine": "uml", "release": "6.1", "origin": "here", "created": 1.0, "seconds": 1.0}
    (kernel / "kernel.json").write_text(json.dumps(about))


def test_a_real_session_fits_the_schema(kit: Kit, tmp_path: Path) -> None:
    env = {"KIT_STORE": f"sqlite:///{tmp_path}/kit.db"}
    assert kit("import", ROOT / "tests/data/tutorial.kit.json.gz", **env).returncode == 0
    assert check_document("session", kit("show", "--json", **env).stdout)["samples"]


def test_traced_runs_and_warmups_fit_the_schema(kit: Kit, url: str) -> None:
    document = check_document("session", kit("show", SESSION.id, "--json", KIT_STORE=url).stdout)
    assert document["warmups"] and document["traced"][0]["calls"] and document["samples"][0]["reported"]


def test_figures_of_time_fit_the_schema(kit: Kit, tmp_path: Path) -> None:
    for name in ("bare", "aufs"):
        (tmp_path / name).write_text("real 0m1.0s\nuser 0m0.5s\nsys 0m0.1s\n")
    words = ("import", f"bare={tmp_path}/bare", f"aufs={tmp_path}/aufs", "--json", "-")
    check_document("session", kit(*words, KIT_STORE=f"sqlite:///{tmp_path}/kit.db").stdout)


def test_a_night_fits_its_schema(filled: Path) -> None:
    store = new_store(filled)
    session = store.get("2026-0013")
    analysis = analyse(session)
    task = Task(session.request, (parse_threshold("layer:overlay2 < 5 %", "docker"),))
    findings = (missing(task.thresholds[0], "not run"),)
    whole = Part(task, session, analysis, findings, find_tracks(session, analysis, store))
    made = Night("n", 1.0, (whole, Part(task, error="no")))
    document = check_document("nightly", render_night_json(made))
    assert document["tasks"][0]["histories"][0]["changes"] and find(NIGHT, "nightly").render(made)


def test_documents_of_machines_fit_their_schemas() -> None:
    """As kit doctor and kit fleet status put them together; tests of the machine check the commands."""
    diagnosis = Diagnosis("driver", "x", True, "")
    check_document("doctor", json.dumps({"schema": 1, "diagnoses": [asdict(diagnosis)]}))
    member = Member("a", "large", "1", "p", "6.1", "cpu", 4, 1 << 30, "none", True, "id", drivers=("docker/vfs",))
    machine = {**json.loads(encode_json(member)), "runs": [{"share": "s", "progress": None}]}
    check_document("fleet-status", json.dumps({"schema": 1, "machines": [machine]}))


def test_the_command_prints_a_schema(kit: Kit) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    assert all(line.split()[0] in DOCUMENTS for line in kit("schema").stdout.splitlines())
    for name in DOCUMENTS:
        jsonschema.Draft202012Validator.check_schema(published(name))
    assert json.loads(kit("schema", "images").stdout) == published("images")
    done = kit("schema", "image")
    assert done.returncode == 2 and "unknown document 'image'" in done.stderr


def test_a_wrong_document_is_refused() -> None:
    for wrong in ({"schema": 1}, {"schema": 9, "images": []}, {"schema": 1, "images": [], "more": 1}):
        with pytest.raises(AssertionError):
            check_document("images", json.dumps(wrong))


def test_a_scenario_file_is_not_overwritten(kit: Kit, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("mine")
    assert kit("scenarios", "--json", path).returncode == 2 and path.read_text() == "mine"


def test_an_argument_is_not_taken_for_a_file(kit: Kit, url: str) -> None:
    done = kit("show", "--json", "last", KIT_STORE=url)
    assert done.returncode == 2 and "--json last: FILE must end in .json" in done.stderr and "fix: use" in done.stderr
    assert kit("sessions", "--json", "/missing/x.json", KIT_STORE=url).returncode == 2


def test_a_file_and_json_on_stdout_are_two_outputs(kit: Kit, url: str, tmp_path: Path) -> None:
    path = tmp_path / "last.json"
    done = kit("show", "last", "--json", "-o", path, KIT_STORE=url)
    assert done.returncode == 2 and "-o and --json both name an output" in done.stderr and not done.stdout
    assert kit("show", "last", "--json", path, "-o", tmp_path / "last.txt", KIT_STORE=url).returncode == 0
    assert path.exists() and (tmp_path / "last.txt").exists()
