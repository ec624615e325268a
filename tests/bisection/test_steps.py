"""A bisection whose sessions run on a simulated machine: repository, plans, schedule, test and store are real."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine, text

from kit.analysis.bisection.bisection import FOUND, INCONCLUSIVE, SEVERAL, Bisection
from kit.bisection.candidates import find_range
from kit.bisection.conditions import what_changed
from kit.bisection.steps import BisectionRequest, run_bisection
from kit.core.errors import RunError
from kit.core.paths import Paths, find_paths
from kit.host.machine import read_host
from kit.model.arm import parse_arm, parse_arms
from kit.model.default_driver import Docker
from kit.model.event import EventSink, FactsKnown, SampleTaken, StatusChanged
from kit.model.fact import KERNEL, LABEL, MACHINE, PROGRAM, RUN_ORDER, STOPPED, stored
from kit.model.plan import MOST_ROUNDS, PlanStep, SlowdownTest, make_plan
from kit.model.sample import SEQUENTIAL, Phase, Sample, input_digest
from kit.model.session import DONE, INTERRUPTED, Request, Session
from kit.report.text.progress import Quiet
from kit.session.plan.planning import prepare, prepare_begun
from kit.session.plan.schedule import End, Schedule
from kit.session.prepared import StartOptions
from kit.session.setup.resumable import record_begun
from kit.session.start import new_session
from kit.store import Store
from kit.store.exchange import load
from tests.needs import needs
from tests.repository import git, make_repository
from tests.stores import dump, new_store

pytestmark = needs("git")
COMMITS = 7  # after the good one


class Simulated:
    """Runs the sessions of a bisection: a commit takes ``cost`` times 10 s, or fails. ``interrupt``: after so many runs
    Ctrl-C comes."""

    def __init__(self, cost: dict[str, float], broken: tuple[str, ...] = ()) -> None:
        self.cost, self.broken = cost, broken
        self.launched: list[Request] = []
        self.resumed: list[tuple[str, float | None]] = []
        self.interrupt: int | None = None
        self.kernel = read_host().kernel
        self.digests: tuple[tuple[str, str], ...] = ()
        self.rng = np.random.default_rng(1)

    def launch(self, request: Request, paths: Any, store: Store, observer: Any, start: Any) -> Session:
        self.launched.append(request)
        session = new_session(prepare(request, read_host(), Docker()))
        facts = [MACHINE.fact(read_host().machine), RUN_ORDER.fact(SEQUENTIAL), KERNEL.fact(self.kernel)]
        session = session.with_facts(facts)
        session = replace(session, id=f"step-{len(self.launched)}", created=1e9 + len(self.launched))
        record_begun(paths.data, session, print)
        store.create(session)
        return self._go_on(session, store)

    def resume(
        self, name: str, paths: Any, store: Store, observer: Any, start: Any, budget: float | None = None
    ) -> Session:
        self.resumed.append((name, budget))
        return self._go_on(store.get(name), store)

    def _go_on(self, session: Session, store: Store) -> Session:
        commits = dict(session.request.revisions)
        schedule, samples = Schedule(session.kept_plan(), session.arms), list(session.samples)
        while not isinstance(round_ := schedule.next(samples), End):
            for step in round_.steps:
                if self.interrupt is not None and self.interrupt <= 0:
                    store.take(session.id, [StatusChanged(INTERRUPTED)])
                    raise KeyboardInterrupt
                self.interrupt = None if self.interrupt is None else self.interrupt - 1
                samples.append(self._run(step, commits[step.arm.option("rev")]))
                store.take(session.id, [SampleTaken(samples[-1])])
        ended = session.with_facts([STOPPED.fact(round_.reason)])
        store.take(session.id, [FactsKnown.of(ended), StatusChanged(DONE)])
        return store.get(session.id)

    def _run(self, step: PlanStep, commit: str) -> Sample:
        real = 10 * self.cost[commit] * float(np.exp(self.rng.normal(0, 0.01)))
        phase = Phase("run", "ok", real)
        if commit in self.broken:
            return Sample(str(step.arm), step.round, step.kind, "failed", 0.0, (), error="run failed\nwith 2", log="/l")
        return Sample(str(step.arm), step.round, step.kind, "ok", 0.0, (phase,), digests=self.digests)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = make_repository(tmp_path_factory.mktemp("bisect") / "repository")
    for number in range(COMMITS - 1):
        git(directory, "commit", "-q", "--allow-empty", "-m", f"change {number}")
    return directory


@pytest.fixture
def machine(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulated]:
    """The fourth candidate is the first slow one."""
    found = find_range("v1", "main", str(repository))
    ids = [found.good.id, *(item.id for item in found.candidates)]
    made = Simulated({commit: 1.1 if place >= 4 else 1.0 for place, commit in enumerate(ids)})
    monkeypatch.setattr("kit.bisection.steps.launch", made.launch)
    monkeypatch.setattr("kit.bisection.steps.resume", made.resume)
    yield made


def asked(repository: Path, **more: Any) -> BisectionRequest:
    request = Request(command=("make",), source=str(repository), cache="cold")
    found = find_range("v1", "main", str(repository))
    return replace(BisectionRequest(request, parse_arm("layer:overlay2"), found, 0.05, 0.05), **more)


def own_paths(store: Store) -> Paths:
    """Beside the store: its sessions were begun by the user whose records are there."""
    place = Path(store.name.removeprefix("sqlite:///"))
    return replace(find_paths(), data=place.with_suffix(".data"), cache=place.with_suffix(".cache"))


def bisect(wanted: BisectionRequest, store: Store, observer: EventSink | None = None) -> Bisection:
    return run_bisection(wanted, own_paths(store), store, observer or Quiet(), StartOptions())


def test_a_planted_slowdown_is_found_and_a_second_start_measures_nothing(
    repository: Path, machine: Simulated, tmp_path: Path
) -> None:
    store = new_store(tmp_path / "kit.db")
    found = bisect(asked(repository), store)
    assert found.result == FOUND and found.first == found.candidates[3]
    assert len(machine.launched) == len(found.steps) == 4 and found.error == pytest.approx(0.05)
    step = found.step(found.candidates[3])
    assert step and step.slowdown.low and 1 < step.slowdown.low < 1.1 < (step.slowdown.high or 0) < 1.2
    again = bisect(asked(repository), store)
    assert len(machine.launched) == 4 and machine.resumed == []
    assert all(item.earlier for item in again.steps) and again.first == found.first
    assert bisect(asked(repository, error=0.1), store).first == found.first
    assert len(machine.launched) == 4, "steps that were stricter than needed are good enough"
    bisect(asked(repository, again=True), store)
    assert len(machine.launched) == 8
    bisect(asked(repository, threshold=0.06), store)
    assert len(machine.launched) > 8


def test_a_step_s_session_says_what_it_is(repository: Path, machine: Simulated, tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    found = bisect(asked(repository), store)
    first, second = machine.launched[:2]
    bad = found.candidates[-1]
    assert first.title == "bisect make" and first.test and first.test.threshold == 0.05
    assert dict(first.labels)["candidate"] == bad.id
    assert first.revisions == (("good", found.good.id), (bad.name, bad.id))
    assert (first.interleave, second.interleave) == ("auto", "off"), "one session looks for the run order"
    session = store.get(found.steps[0].session)
    assert session.arms == ("layer:overlay2+rev=good", f"layer:overlay2+rev={bad.name}")
    assert session.baselines == ((session.arms[1], session.arms[0]),)
    assert {item.kind for item in session.samples} == {"measured"}


def test_an_interrupted_bisection_goes_on_with_the_session_that_was_interrupted(
    repository: Path, machine: Simulated, tmp_path: Path
) -> None:
    store = new_store(tmp_path / "kit.db")
    whole = bisect(asked(repository), store)
    store = new_store(tmp_path / "second.db")
    machine.launched.clear()
    machine.rng = np.random.default_rng(1)
    machine.interrupt = 2 * whole.steps[0].slowdown.rounds + 3
    with pytest.raises(KeyboardInterrupt):
        bisect(asked(repository), store)
    assert len(machine.launched) == 2
    machine.interrupt = None
    found = bisect(asked(repository), store)
    assert [name for name, _ in machine.resumed] == ["step-2"] and machine.resumed[0][1]
    assert [item.earlier for item in found.steps] == [True, False, False, False]
    assert found.first == whole.first and len(machine.launched) == 4
    assert found.earlier == 1 and found.steps[1].rounds_before > 0
    assert found.rounds == sum(step.slowdown.rounds for step in found.steps[1:]) - found.steps[1].rounds_before


def test_a_step_under_other_conditions_is_measured_again(repository: Path, machine: Simulated, tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    machine.kernel = "5.4.0-old"
    first = bisect(asked(repository), store).first
    machine.kernel = read_host().kernel
    assert bisect(asked(repository), store).first == first
    assert len(machine.launched) == 8, "all ran on another kernel"
    bisect(asked(repository), store)
    assert len(machine.launched) == 8, "older sessions of another kernel do not matter"


def test_what_changed_is_named(repository: Path, machine: Simulated, tmp_path: Path) -> None:
    """Scenario and image by their digests; programs: see below."""
    machine.digests = (("scenario", "another"),)
    store = new_store(tmp_path / "kit.db")
    bisect(asked(repository), store)
    session = store.get("step-1")
    host, paths = read_host(), find_paths()
    assert what_changed(session, host, paths, print) == "another scenario"
    plain = replace(session, samples=tuple(replace(item, digests=()) for item in session.samples))
    assert what_changed(plain, host, paths, print) == ""
    assert what_changed(plain, replace(host, kernel="1.0"), paths, print) == f"kernel 1.0, then {host.kernel}"
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    scenario = prepare_begun(session, host).scenario.digest
    digests = (("scenario", scenario), ("image", "another"))
    given = replace(
        session,
        request=replace(session.request, rootfs=str(root)),
        samples=tuple(replace(item, digests=digests) for item in session.samples),
    )
    own = replace(paths, cache=tmp_path / "cache")
    assert what_changed(given, host, own, print) == "another image"


def planted(wanted: BisectionRequest, source: Path) -> list[Session]:
    """As a writer of the store can make up: for each candidate a finished step of this machine, in which it is fast,
    and whose request names a file of this machine."""
    plan = make_plan(parse_arms("bare,layer:overlay2"), 0, 1, control=False)
    sessions = []
    for number, candidate in enumerate(wanted.range.candidates):
        labels = (("bisect", wanted.key), ("candidate", candidate.id))
        session = Session(
            id=f"planted-{number}", created=2e9 + number, kit_version="0", title=wanted.title, status=DONE,
            request=Request(
                command=("true",), source=str(source), labels=labels, test=SlowdownTest(wanted.threshold, 1e-9)
            ),
            arms=("bare", "layer:overlay2"), baselines=(("layer:overlay2", "bare"),), seed=1, plan=plan,
            facts=stored([MACHINE.fact(read_host().machine), *(LABEL.fact(text, name) for name, text in labels)]),
        )  # fmt: skip
        scenario = prepare_begun(session, read_host()).scenario.digest
        digests = (("scenario", scenario), (input_digest("source"), "another"))
        phase = Phase("run", "ok", 10.0)
        samples = tuple(
            Sample(arm, round_, "measured", "ok", 0.0, (phase,), digests=digests)
            for round_ in range(1, MOST_ROUNDS + 1) for arm in session.arms
        )  # fmt: skip
        sessions.append(replace(session, samples=samples))
    return sessions


class Listener(Quiet):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def tell(self, text: str) -> None:
        self.lines.append(text)


@pytest.mark.promise(
    "a shared store", "`kit bisect` and suites go on from sessions alone that this user has begun here, unchanged."
)
@pytest.mark.parametrize("how", ["database", "export"])
def test_a_session_of_another_writer_is_no_step_and_no_file_that_it_names_is_read(
    repository: Path, machine: Simulated, tmp_path: Path, how: str
) -> None:
    store, wanted, secret = new_store(tmp_path / "kit.db"), asked(repository), tmp_path / "secret"
    secret.write_text("of root alone")
    sessions = planted(wanted, secret)
    store.add_new(load(dump(sessions), "x.json") if how == "export" else sessions)
    listener = Listener()
    found = bisect(wanted, store, listener)
    assert found.first == found.candidates[3] and len(machine.launched) == len(found.steps) == 4
    assert not any(step.earlier for step in found.steps)
    files = (path for path in own_paths(store).cache.rglob("*") if path.is_file())
    copies = [path for path in files if b"of root" in path.read_bytes()]
    assert copies == [], "a copy that others may read"
    expected = how == "database"  # what is imported is no candidate for it
    assert any("measured again: session planted-6 was not begun here" in line for line in listener.lines) == expected


@pytest.mark.promise(
    "a shared store", "`kit bisect` and suites go on from sessions alone that this user has begun here, unchanged."
)
def test_a_step_that_others_have_changed_in_the_store_does_not_count(
    repository: Path, machine: Simulated, tmp_path: Path
) -> None:
    """Its command, or the label by which it would be another candidate's step."""
    store, wanted = new_store(tmp_path / "kit.db"), asked(repository)
    first = bisect(wanted, store)
    steps = {step.candidate.id: step.session for step in first.steps}
    engine, (one, other) = create_engine(store.name), (first.candidates[-1].id, first.candidates[3].id)
    with engine.begin() as connection:
        change = text("UPDATE kit_sessions SET request = replace(request, :old, :new) WHERE id = :id")
        connection.execute(change, {"old": '"make"', "new": '"sh"', "id": steps[one]})
        change = text("UPDATE kit_sessions SET facts = replace(facts, :old, :new) WHERE id = :id")
        connection.execute(change, {"old": other, "new": one, "id": steps[other]})
    engine.dispose()
    listener = Listener()
    assert bisect(wanted, store, listener).first == first.first
    assert len(machine.launched) == 5
    assert any(f"session {steps[one]} is not what was begun here" in line for line in listener.lines)


@pytest.mark.promise("a shared store", "No stored session names a program that is run.")
def test_no_program_of_a_stored_fact_is_run_but_those_of_engines(
    repository: Path, machine: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path / "kit.db")
    bisect(asked(repository, again=True), store)
    session = store.get("step-1")
    for name in ("mergerfs", "planted"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-$(basename $0)\necho {name} 2\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    older = session.with_facts([PROGRAM.fact(f"{name} 1", name) for name in ("planted", "mergerfs")])
    assert what_changed(older, read_host(), own_paths(store), print) == "mergerfs 2, then mergerfs 1"
    assert [path.name for path in tmp_path.glob("ran-*")] == ["ran-mergerfs"]


def test_commits_that_fail_are_skipped(repository: Path, machine: Simulated, tmp_path: Path) -> None:
    candidates = asked(repository).range.candidates
    machine.broken = (candidates[3].id,)
    found = bisect(asked(repository), new_store(tmp_path / "kit.db"))
    assert found.result == SEVERAL and found.suspects == candidates[3:5]
    skipped = found.step(candidates[3])
    assert skipped and skipped.reason == "run failed with 2" and skipped.slowdown.rounds == 0


def test_ends_that_fail_are_errors(repository: Path, machine: Simulated, tmp_path: Path) -> None:
    found = asked(repository).range
    machine.broken = (found.good.id,)
    with pytest.raises(RunError, match="the good end layer:overlay2"):
        bisect(asked(repository), new_store(tmp_path / "kit.db"))
    machine.broken = (found.candidates[-1].id,)
    with pytest.raises(RunError, match=f"the bad end {found.candidates[-1].name} can't be measured: run failed"):
        bisect(asked(repository), new_store(tmp_path / "other.db"))


def test_a_failure_is_not_remembered(repository: Path, machine: Simulated, tmp_path: Path) -> None:
    """The network was gone, or the disk full."""
    store, candidates = new_store(tmp_path / "kit.db"), asked(repository).range.candidates
    machine.broken = (candidates[-1].id,)
    with pytest.raises(RunError):
        bisect(asked(repository), store)
    machine.broken = (candidates[3].id,)
    assert bisect(asked(repository), store).result == SEVERAL
    machine.broken = ()
    launched = len(machine.launched)
    found = bisect(asked(repository), store)
    assert found.first == candidates[3] and len(machine.launched) == launched + 1


def test_without_time_the_answer_is_what_is_left(repository: Path, machine: Simulated, tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    found = bisect(asked(repository, budget=0.0), store)
    assert found.result == INCONCLUSIVE and found.suspects == () and machine.launched == []
    assert found.steps[0].reason == "the budget is spent"
    assert bisect(asked(repository), store).result == FOUND


def test_a_version_without_the_driver_is_skipped(machine: Simulated, tmp_path: Path) -> None:
    versions = find_range("docker@20.10", "docker@29", "")
    wanted = BisectionRequest(Request(command=("make",)), parse_arm("layer:aufs"), versions, 0.05, 0.05)
    with pytest.raises(RunError, match="the bad end docker@29 can't be measured: docker 29 has no aufs"):
        bisect(wanted, new_store(tmp_path / "kit.db"))
    assert machine.launched == []
