"""What is kept of sessions that a fleet has finished, and where a worker keeps its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kit.core.errors import RunError, UsageError
from kit.core.paths import Paths, find_paths
from kit.extra.fleet.address import Address
from kit.extra.fleet.client import run
from kit.extra.fleet.client.each import EachCourse
from kit.extra.fleet.client.merge import member_facts
from kit.extra.fleet.service import agent
from kit.extra.fleet.share import Assignment, Share
from kit.model.drivers import Docker
from kit.model.event import SampleTaken, SessionStarted
from kit.model.fact import DEFAULT_REFERENCE, RUN_ORDER
from kit.model.machine import Selection
from kit.model.session import DONE, INTERRUPTED, Request, Session
from kit.report.text.progress import Quiet
from kit.session.prepared import StartOptions
from kit.session.start import AssignedRounds
from kit.session.wire.messages import Done, MessageReader
from kit.store import Store
from kit.store.schema.outcomes import kept_of
from tests.extra.fleet.machines import FIRST, ONE, SECOND, TWO, sample
from tests.stores import new_store


class OneIsLost:
    """In the place of a fleet: one machine finishes its session, the other does not come back."""

    ended: BaseException = RunError("no machine is left")

    def __init__(self, address: Address, course: EachCourse, tell: Callable[[str], None], patience: float) -> None:
        self._course = course

    def run(self) -> None:
        self._course.assign([ONE, TWO])
        for member in (ONE, TWO):
            self._course.on_event(member, SampleTaken(sample(1)))
        self._course.end(ONE, Done.by(replace(FIRST, status=DONE)))
        self._course.end(TWO, None)
        raise self.ended


class OneIsInterrupted(OneIsLost):
    ended = KeyboardInterrupt()


def each_with(
    dispatch: type[OneIsLost], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[run.FleetContext, Store]:
    monkeypatch.setattr(run, "Dispatch", dispatch)
    monkeypatch.setattr(run, "_chosen", lambda request, context, plan=None: (ONE, TWO))
    monkeypatch.setattr(run, "_planned", lambda _, members, *rest: FIRST if members[0] is ONE else SECOND)
    store = new_store(tmp_path / "kit.db")
    paths = replace(find_paths(), data=tmp_path)
    return run.FleetContext(Address("127.0.0.1", 1), Selection(), paths, store, Quiet()), store


class Nobody:
    """In the place of a fleet that has no machine left: the sessions are planned, and none is run."""

    def __init__(self, address: Address, course: EachCourse, tell: Callable[[str], None], patience: float) -> None:
        pass

    def run(self) -> None:
        raise RunError("no machine is left")


class Hears(Quiet):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def tell(self, text: str) -> None:
        self.said.append(text)


NEW, OLD = Docker("29.1.0"), Docker("20.10.24")


@pytest.mark.parametrize(
    ("dockers", "request_", "arms", "reference", "says"),
    [
        ((NEW, NEW), Request("smoke"), ["overlayfs", "overlay2", "btrfs", "fuse-overlayfs", "zfs"],
         "layer:overlayfs", ""),
        ((OLD, OLD), Request("smoke"),
         ["overlay2", "btrfs", "fuse-overlayfs", "aufs", "devicemapper", "zfs"], "layer:overlay2", ""),
        ((NEW, OLD), Request("smoke"), ["overlay2", "btrfs", "fuse-overlayfs", "zfs"], "layer:overlay2",
         "(29.1.0 with overlayfs on one; 20.10.24 with overlay2 on two)"),
        ((Docker("29.1.0", None, "overlay2"), NEW), Request("smoke"),
         ["overlay2", "overlayfs", "btrfs", "fuse-overlayfs", "zfs"], "layer:overlay2",
         "(29.1.0 with overlay2 on one; 29.1.0 with overlayfs on two)"),
        ((OLD, NEW), Request("smoke", engine="docker@29"),
         [f"docker@29/{name}" for name in ("overlayfs", "overlay2", "btrfs", "fuse-overlayfs", "zfs")],
         "layer:docker@29/overlayfs", ""),
        ((NEW, NEW), Request("smoke", guest="uml"),
         ["overlay2", "btrfs", "fuse-overlayfs", "aufs", "devicemapper", "zfs"], "layer:overlay2", ""),
        ((NEW, OLD), Request("smoke", arms=("bare", "layer:overlay2", "layer:overlayfs")), ["overlay2", "overlayfs"],
         "layer:overlay2", ""),
    ],
)  # fmt: skip
def test_default_arms_follow_the_docker_of_the_machines(
    dockers: tuple[Docker, Docker], request_: Request, arms: list[str], reference: str, says: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    members = tuple(replace(member, docker=docker) for member, docker in zip((ONE, TWO), dockers, strict=True))
    monkeypatch.setattr(run, "Dispatch", Nobody)
    monkeypatch.setattr(run, "_chosen", lambda request, context, plan=None: members)
    hears = Hears()
    paths = replace(find_paths(), data=tmp_path)
    context = run.FleetContext(Address("127.0.0.1", 1), Selection(), paths, new_store(tmp_path / "kit.db"), hears)
    for session in run.run_each(request_, context):
        found = [arm for arm in session.arms if arm.startswith("layer:")]
        assert found == [f"layer:{name}" for name in arms]
        assert DEFAULT_REFERENCE.text(session.facts) == reference
        assert session.request.arms == session.arms  # as stored: a later Docker changes neither
    said = [text for text in hears.said if "Docker differs" in text]
    assert len(said) == bool(says) and all(says in text for text in said)


def test_default_arms_are_those_that_every_machine_is_known_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = replace(TWO, docker=OLD, drivers=("docker/overlay2", "docker/vfs"), filesystems=("ext4",))
    monkeypatch.setattr(run, "Dispatch", Nobody)
    monkeypatch.setattr(run, "_chosen", lambda request, context, plan=None: (replace(ONE, docker=OLD), tried))
    paths = replace(find_paths(), data=tmp_path)
    context = run.FleetContext(Address("127.0.0.1", 1), Selection(), paths, new_store(tmp_path / "kit.db"), Quiet())
    for session in run.run_each(Request("smoke", control=False, cache="cold"), context):
        ladder = [f"{placement}:overlay2" for placement in ("runtime", "bind", "volume", "layer")]
        assert list(session.arms) == ["bare", *ladder, "layer:vfs"]


def test_what_an_unfinished_session_found_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, store = each_with(OneIsLost, tmp_path, monkeypatch)
    assert [session.status for session in run.run_each(Request(), context)] == [DONE, INTERRUPTED]
    assert store.get(SECOND.id).status == INTERRUPTED and store.get(SECOND.id).samples
    with store._database.reading() as connection:
        assert kept_of(connection, [FIRST.id, SECOND.id]) == {FIRST.id}


def test_interrupted_what_is_done_is_reported_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, store = each_with(OneIsInterrupted, tmp_path, monkeypatch)
    with pytest.raises(run.EachInterrupted) as stop:
        run.run_each(Request(), context)
    assert [session.status for session in stop.value.sessions] == [DONE, INTERRUPTED]
    assert [store.get(session.id).status for session in (FIRST, SECOND)] == [DONE, INTERRUPTED]
    with store._database.reading() as connection:
        assert kept_of(connection, [FIRST.id, SECOND.id]) == {FIRST.id}


@pytest.mark.parametrize("rounds", [(), (1, 2)])
def test_a_worker_keeps_shares_apart_from_its_users_store(
    rounds: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be one user's, who has the session in his store and outbox by the same name."""
    seen: list[tuple[Path, str]] = []

    def launch(assigned: AssignedRounds, paths: Paths, store: Store, channel: Any, options: StartOptions) -> Session:
        assert assigned.rounds == rounds and options.wait
        seen.append((paths.data, store.name))
        return assigned.session

    monkeypatch.setenv("KIT_HOME", str(tmp_path))
    monkeypatch.setattr(agent, "launch", launch)
    with open(os.devnull, "wb") as nothing:
        channel = agent._ShareChannel(nothing.fileno(), Share(FIRST, rounds))
        agent._run(Assignment(Share(FIRST, rounds), str(tmp_path), False), cast(Any, channel))
    assert seen == [(tmp_path / "data/fleet", f"sqlite:///{tmp_path}/data/fleet/kit.db")]
    assert not (tmp_path / "data/kit.db").exists()


@pytest.mark.parametrize(("rounds", "said"), [((), [1, 2, 3]), ((1, 3), [1, 3])])
def test_a_worker_first_sends_what_an_earlier_start_measured(
    rounds: tuple[int, ...], said: list[int], tmp_path: Path
) -> None:
    with (tmp_path / "said").open("wb") as file:
        channel = agent._ShareChannel(file.fileno(), Share(FIRST, rounds))
        channel.take(SessionStarted(replace(FIRST, samples=tuple(map(sample, (1, 2, 3))))))
    found = list(MessageReader().feed((tmp_path / "said").read_bytes()))
    assert found == [SampleTaken(sample(round_), earlier=True) for round_ in said]


@pytest.mark.promise("a shared store", "`--resume` runs only what this user has begun here, unchanged.")
def test_a_split_session_that_was_not_begun_here_is_given_to_no_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers would run its command as root."""
    context, store = each_with(OneIsLost, tmp_path, monkeypatch)
    given = list[Session]()

    def note(session: Session, *_: object) -> Session:
        given.append(session)
        return session

    monkeypatch.setattr(run, "_carry_split", note)
    monkeypatch.setattr(run, "_planned", lambda *_: FIRST.with_facts(member_facts([ONE])))
    mine = run.run_split(FIRST.request, context)
    planted = replace(mine, id=SECOND.id, request=replace(mine.request, command=("sh",)))
    for session in (mine, planted):
        store.create(replace(session, status=INTERRUPTED))
    assert [item.id for item in given] == [mine.id]
    with pytest.raises(UsageError, match=f"session {planted.id} was not begun here"):
        run.resume_split(planted.id, context)
    assert run.resume_split(mine.id, context).request.command == ("true",)
    (tmp_path / "begun" / planted.id).write_text("0" * 64)
    with pytest.raises(UsageError, match="is not what was begun here"):
        run.resume_split(planted.id, context)
    assert [item.id for item in given] == [mine.id, mine.id]


def test_a_nights_split_session_keeps_the_order_of_its_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[Session]()

    def note(session: Session, *_: object) -> Session:
        given.append(session)
        return session

    monkeypatch.setattr(run, "_carry_split", note)
    monkeypatch.setattr(run, "_chosen", lambda request, context, plan=None: (ONE, TWO))
    store, paths = new_store(tmp_path / "kit.db"), replace(find_paths(), data=tmp_path)
    context = run.FleetContext(Address("127.0.0.1", 1), Selection(), paths, store, Quiet(), keep_order=True)
    request = Request(command=("make",), arms=("bare", "layer:overlay2"), rounds=2)
    first = run.run_split(request, context)
    assert not RUN_ORDER.text(first.facts)  # its first machine chooses
    store.add(replace(first.with_facts([RUN_ORDER.fact("sequential")]), status=DONE))
    assert RUN_ORDER.text(run.run_split(request, context).facts) == "sequential"
    assert not RUN_ORDER.text(run.run_split(request, replace(context, keep_order=False)).facts)
