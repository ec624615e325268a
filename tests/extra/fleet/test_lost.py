"""Real schedulers and workers, as processes that are killed: what was done is kept, what was lost is done again, and
nothing counts twice. The workers sleep instead of measuring."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Timer

import pytest

from kit.core.errors import MachineError
from kit.extra.fleet.address import parse_address
from kit.extra.fleet.certificates import make_certificates
from kit.extra.fleet.client.client import fleet_at
from kit.extra.fleet.client.dispatch import Dispatch
from kit.extra.fleet.client.split import RoundStore, SplitCourse
from kit.model.arm import parse_arms
from kit.model.event import Event, SampleTaken
from kit.model.machine import Member
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from kit.model.session import RUNNING, Request, Session
from kit.report.text.progress import Quiet
from kit.store import Outbox, open_store
from tests.extra.fleet.cut_network import Way
from tests.extra.fleet.processes import Processes
from tests.postgresql import Server
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]
pytest.importorskip("distributed", reason="the package distributed is not installed: the extra fleet")

ARMS = ("bare", "layer:overlay2")
ROUNDS = 9


class Kept:
    def __init__(self) -> None:
        self.runs: list[tuple[int, str]] = []

    def take(self, *events: Event) -> None:
        self.runs += [(it.sample.round, it.sample.arm) for it in events if isinstance(it, SampleTaken)]


class Once(Quiet):
    """Acts after a number of runs."""

    def __init__(self, after: int, act: Callable[[], None]) -> None:
        super().__init__()
        self._after, self._act = after, act

    def take(self, event: Event) -> None:
        self._after -= isinstance(event, SampleTaken)
        if self._after == 0 and isinstance(event, SampleTaken):
            self._act()


def begun(processes: Processes) -> Session:
    request = Request(command=("true",), arms=ARMS, rounds=ROUNDS, interleave="off")
    plan = make_plan(parse_arms(",".join(ARMS)), SessionOptions(rounds=ROUNDS, seed=1, control=False))
    name = f"fleet-{processes.port}"
    return Session(name, 1e9, "0", "true", RUNNING, request, ARMS, plan.baselines, 1, plan=plan)


def execute(
    processes: Processes, session: Session, members: list[Member], sink: RoundStore, act: Callable[[], None]
) -> str:
    """Run the course, and act after four runs; return the messages to the user."""
    told: list[str] = []
    course = SplitCourse(session, session.kept_plan(), members, sink, Once(4, act))
    Dispatch(processes.address, course, told.append, 60).run()
    return "\n".join(told)


#: What a session must have in the end, nothing twice.
ALL = [(round_, arm) for round_ in range(1, ROUNDS + 1) for arm in ARMS]


def run(processes: Processes, members: list[Member], act: Callable[[], None]) -> str:
    kept = Kept()
    told = execute(processes, begun(processes), members, kept, act)
    assert sorted(kept.runs) == ALL
    return told


def test_a_killed_workers_rounds_are_made_by_others(processes: Processes) -> None:
    processes.start_scheduler()
    for number in range(3):
        processes.start_worker(number)
    seen: list[str] = []

    def kill() -> None:
        with fleet_at(processes.address) as fleet:
            seen.extend(one.share.rpartition(" ")[0] for item in fleet.status() for one in item.runs)
        processes.kill("m1")

    told = run(processes, processes.members(3), kill)
    assert told.startswith("m1: was lost: the connection to its worker broke") and "\n" not in told
    assert set(seen) == {f"true {begun(processes).id}"}, "which kit show knows"


def test_a_killed_scheduler_is_waited_for(processes: Processes) -> None:
    def restart() -> None:
        processes.kill("scheduler")
        processes.start_scheduler()

    processes.start_scheduler()
    for number in (0, 1):
        processes.start_worker(number)
    told = run(processes, processes.members(2), restart)
    assert "the scheduler is gone: waits 60 s" in told and "was lost" not in told


def test_while_the_network_is_cut_nothing_is_lost(processes: Processes) -> None:
    def cut() -> None:
        way.set_cut(True)
        Timer(2, way.set_cut, (False,)).start()

    processes.start_scheduler()
    way = Way(processes.port)
    for number in (0, 1):
        processes.start_worker(number, port=way.entry)
    told = run(processes, processes.members(2), cut)
    assert {"m0: was lost", "m1: was lost"} <= {line[: len("m0: was lost")] for line in told.splitlines()}
    assert "no machine is left: waits 60 s for one" in told


def test_a_killed_database_gets_each_run_once(
    processes: Processes, postgresql: Server, database: str, tmp_path: Path
) -> None:
    back = Timer(1, postgresql.start)

    def kill() -> None:
        postgresql.kill()
        back.start()

    processes.start_scheduler()
    for number in (0, 1):
        processes.start_worker(number)
    session, said = begun(processes), list[str]()
    store = open_store(database, tmp_path / "kit.db")
    with Outbox(session, store, tmp_path, said.append) as outbox:
        outbox.create(session)
        assert execute(processes, session, processes.members(2), outbox, kill) == ""
        back.join()
    assert "what is measured waits in" in said[0] and "is back" in said[1]
    assert sorted((sample.round, sample.arm) for sample in store.get(session.id).samples) == ALL


@pytest.mark.promise("a fleet", "Without a certificate of its authority nobody gets an answer from a fleet.")
def test_who_shows_anothers_certificate_is_refused(processes: Processes, tmp_path: Path) -> None:
    for name in ("ours", "theirs", "mixed"):
        make_certificates(tmp_path / name, 1)
    (tmp_path / "mixed/ca.pem").write_bytes((tmp_path / "ours/ca.pem").read_bytes())  # trusts us; we don't trust it
    processes.tls = str(tmp_path / "ours")
    processes.start_scheduler()
    assert processes.members(0) == []
    for other in (str(tmp_path / "theirs"), str(tmp_path / "mixed"), ""):
        address = parse_address(f"127.0.0.1:{processes.port}", other)
        with pytest.raises(MachineError, match="do not trust each other"), fleet_at(address):
            pass


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.promise("a fleet", "A fleet with certificates speaks TLS 1.2 or newer.")
def test_old_tls_is_refused(processes: Processes, tmp_path: Path) -> None:
    """The alert is the scheduler's: this end would speak TLS 1.1."""
    make_certificates(tmp_path, 1)
    processes.tls = str(tmp_path)
    processes.start_scheduler()

    def listens() -> bool:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", processes.port)):
            return True
        return False

    wait_until(listens, process=processes.started["scheduler"])
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    context.check_hostname = False
    context.load_cert_chain(tmp_path / "client.pem", tmp_path / "client-key.pem")
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    for newest, reason in ((ssl.TLSVersion.TLSv1_1, "PROTOCOL_VERSION"), (ssl.TLSVersion.TLSv1_2, "")):
        context.maximum_version = newest
        with socket.create_connection(("127.0.0.1", processes.port)) as plain:
            if reason:
                with pytest.raises(ssl.SSLError, match=f"ALERT_{reason}"):
                    context.wrap_socket(plain)
            else:
                assert context.wrap_socket(plain).version() == "TLSv1.2"
