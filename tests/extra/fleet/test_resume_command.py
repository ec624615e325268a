"""The command that continues a session of a fleet works as it is printed."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kit.analysis.session.analyse import analyse
from kit.cli.compare import _report_interrupted
from kit.core.errors import RunError, UsageError
from kit.core.paths import find_paths
from kit.extra.fleet.address import Address
from kit.extra.fleet.client import run
from kit.extra.fleet.client.dispatch import Dispatch
from kit.extra.fleet.client.split import SplitCourse
from kit.host.machine import read_host
from kit.model.event import FactsKnown, SampleTaken
from kit.model.fact import FLEET, WORKER
from kit.model.machine import Selection, parse_where
from kit.model.session import INTERRUPTED, Session
from kit.report.text.answer import render_answer
from kit.report.text.progress import Quiet
from kit.session.start import _check_own
from kit.store import Store
from tests.command_line import Kit, joined
from tests.command_line import in_fork as kit
from tests.extra.fleet.machines import FIRST, ONE, TWO, sample
from tests.stores import new_store

#: Nobody listens there.
NOBODY = Address("127.0.0.1", 1)
SELECTION = Selection(2, "big one", parse_where("cores>=1, name!=b7"))
OPTIONS = "--fleet 127.0.0.1:1 --machines 2 --class 'big one' --where 'cores>=1,name!=b7'"


class Interrupted:
    """In the place of a fleet: a user who presses Ctrl-C after the first round. ``lies``: a machine claims facts."""

    lies = ""

    def __init__(
        self, address: Address, course: SplitCourse, tell: Callable[[str], None], patience: float, again: str
    ) -> None:
        self._course = course

    def run(self) -> None:
        self._course.assign([ONE, TWO])
        facts = {FLEET.key: self.lies} if self.lies else {}
        self._course.on_event(ONE, FactsKnown.of(replace(FIRST, facts=facts)))
        self._course.on_event(ONE, SampleTaken(sample(1)))
        raise KeyboardInterrupt


class Liar(Interrupted):
    lies = "--fleet 127.0.0.1; rm -rf /"


def interrupted(
    fleet: type[Interrupted], selection: Selection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Store, Session]:
    monkeypatch.setattr(run, "Dispatch", fleet)
    monkeypatch.setattr(run, "_chosen", lambda request, context, plan=None: (ONE, TWO))
    monkeypatch.setattr(run, "_planned", lambda request, member, docker, context: FIRST)
    store = new_store(tmp_path / "kit.db")
    context = run.FleetContext(NOBODY, selection, replace(find_paths(), data=tmp_path), store, Quiet())
    with pytest.raises(KeyboardInterrupt):
        run.run_split(replace(FIRST.request, interleave="off"), context)
    return store, store.get(FIRST.id)


def test_it_names_the_fleet_and_the_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, session = interrupted(Interrupted, SELECTION, tmp_path, monkeypatch)
    command = f"kit compare --resume {FIRST.id} {OPTIONS}"
    assert session.status == INTERRUPTED
    assert f"\n{command}\n" in joined(render_answer(session, analyse(session)))
    with pytest.raises(UsageError) as refused:
        _check_own(session, read_host())
    assert refused.value.hint == f"use {command}"


def test_a_shell_and_kit_read_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, session = interrupted(Interrupted, SELECTION, tmp_path, monkeypatch)
    words = shlex.split(session.resume_command)[1:]
    done = kit(*words, "--store", f"sqlite:///{tmp_path}/kit.db", KIT_HOME=str(tmp_path / "home"))
    # The words are right where all that is wrong is that this user did not begin the session.
    assert f"session {FIRST.id} was not begun here" in done.stderr


def test_certificates_are_named_by_their_directory() -> None:
    address = Address("fleet.example.org", 8786, Path("/etc/kit fleet"))
    context = run.FleetContext(address, Selection(), find_paths(), object(), Quiet())  # type: ignore[arg-type]
    assert context.fact().text == "--fleet fleet.example.org:8786 --fleet-tls '/etc/kit fleet'"


def test_a_machine_of_the_fleet_does_not_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, session = interrupted(Liar, Selection(), tmp_path, monkeypatch)
    assert session.resume_command == f"kit compare --resume {FIRST.id} --fleet 127.0.0.1:1"


@pytest.mark.parametrize("text", ["--fleet $(id); id", "--fleet 'x"])
def test_what_others_wrote_into_a_store_is_no_command(text: str) -> None:
    session = replace(FIRST, status=INTERRUPTED).with_facts([FLEET.fact(text), WORKER.fact("one")])
    assert session.resume_command in ("", f"kit compare --resume {FIRST.id} --fleet '$(id);' id")


def test_a_machines_own_session_in_a_fleet_has_none() -> None:
    session = replace(FIRST, status=INTERRUPTED).with_facts([WORKER.fact("one")])
    assert session.resume_command == "" and "--resume" not in render_answer(session, analyse(session))


def test_an_error_names_it() -> None:
    lost = Dispatch(NOBODY, object(), lambda text: None, -1.0, again="kit compare --resume x --fleet y")  # type: ignore[arg-type]
    with pytest.raises(RunError) as gone:
        lost._without_scheduler(0.0, RunError("the scheduler is gone"))
    assert gone.value.hint.startswith("continue with kit compare --resume x --fleet y; what was measured")


def test_it_is_printed_where_nothing_was_measured_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = FIRST.with_facts([FLEET.fact("--fleet 127.0.0.1:1"), WORKER.fact("one")])
    _report_interrupted(session, new_store(tmp_path / "kit.db"), {})
    said = capsys.readouterr().out
    assert said == f"nothing was measured yet; to run it: kit compare --resume {FIRST.id} --fleet 127.0.0.1:1\n"


@pytest.mark.parametrize("words", [("--wait-idle", "1s"), ("--wipe", "/dev/null"), ("--thin-device", "/dev/null")])
def test_an_option_of_one_machine_is_refused(kit: Kit, words: tuple[str, ...]) -> None:
    """Else it would look obeyed."""
    done = kit("compare", "smoke", "--fleet", "127.0.0.1:1", *words)
    assert done.returncode == 2 and f"{words[0]} works on one machine, not with --fleet" in done.stderr, done.stderr
