"""Runs on their way to a server that is killed, or whose kit is: none is lost, none is stored twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from kit.core.codec import encode_json
from kit.model.event import SampleTaken, StatusChanged
from kit.model.sample import Sample
from kit.model.session import DONE, RUNNING
from kit.store import Outbox, open_store
from tests.command_line import Kit
from tests.nights import ladder_session, night
from tests.postgresql import Server
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]

FULL = ladder_session()
HEAD = replace(FULL, status=RUNNING, samples=())


def runs(samples: tuple[Sample, ...]) -> Counter[tuple[str, int]]:
    return Counter((item.arm, item.round) for item in samples)


def test_a_session_begins_while_the_server_is_away_and_kit_sync_delivers_it(
    postgresql: Server, database: str, kit: Kit, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    said: list[str] = []
    open_store(database, data / "kit.db").close()
    postgresql.kill()
    try:
        store = open_store(database, data / "kit.db", tell=said.append, patient=True)
        with Outbox(HEAD, store, data, said.append) as outbox:
            outbox.create(HEAD)
            for sample in FULL.samples:
                outbox.take(SampleTaken(sample))
            outbox.take(StatusChanged(DONE))
        assert len(said) == 2 and "waits in" in said[0] and "kit sync" in said[1]
        done = kit("sync", "--store", database, KIT_HOME=str(tmp_path))
        assert done.returncode == 1 and f"still waiting: {len(FULL.samples)} runs of 1 session" in done.stdout
        assert FULL.id in done.stdout and "Traceback" not in done.stderr
    finally:
        postgresql.start()
    waits = json.loads(kit("sync", "--json", KIT_HOME=str(tmp_path)).stdout)["waits"]  # to another store
    assert [(item["session"], item["runs"]) for item in waits] == [(FULL.id, len(FULL.samples))]
    done = kit("sync", "--store", database, KIT_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(FULL.samples)} runs of 1 session; nothing waits" in done.stdout
    assert open_store(database, data / "kit.db").get(FULL.id) == FULL
    done = kit("sync", "--store", database, KIT_HOME=str(tmp_path))
    assert done.returncode == 0 and "nothing was delivered" in done.stdout
    engine = create_engine(database)
    with engine.connect() as connection:  # what it found is there for others, though no kit has asked for a history
        assert connection.execute(text("SELECT count(*) FROM kit_penalties")).scalar_one() > 10
    engine.dispose()


@pytest.fixture
def german(postgresql: Server) -> Iterator[Server]:
    """The server, that speaks German and asks the role ``guarded`` for a password."""
    rules = postgresql.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all guarded scram-sha-256\n{before}")
    postgresql.run("CREATE ROLE guarded LOGIN PASSWORD 'right'", "ALTER SYSTEM SET lc_messages = 'C.UTF-8'")
    postgresql.call("pg_ctl", "reload")
    yield postgresql
    rules.write_text(before)
    postgresql.run("DROP ROLE guarded", "ALTER SYSTEM RESET lc_messages")
    postgresql.call("pg_ctl", "reload")


@pytest.mark.parametrize(
    ("role", "database", "reason"),
    [
        ("guarded:wrong", "postgres", "Passwort-Authentifizierung für Benutzer »guarded« fehlgeschlagen"),
        ("guarded", "postgres", "no password supplied"),
        ("kit", "missing", "Datenbank »missing« existiert nicht"),
        ("missing", "postgres", "Rolle »missing« existiert nicht"),
    ],
)
def test_a_server_that_refuses_in_german_is_not_away(
    german: Server, kit: Kit, tmp_path: Path, role: str, database: str, reason: str
) -> None:
    url = german.url.replace("kit@/postgres?", f"{role}@/{database}?")
    done = kit("sync", "--store", url, KIT_HOME=str(tmp_path))
    if "»" in reason and "FATAL" in done.stderr and "»" not in done.stderr:
        pytest.skip("needs PostgreSQL's German messages")
    assert (done.returncode, done.stdout) == (2, ""), done
    assert reason in done.stderr and "fix: check path, rights and server" in done.stderr
    assert "wrong" not in done.stderr


def refuses(url: str) -> bool:
    engine = create_engine(url)
    try:
        engine.connect().close()
    except OperationalError:
        return True
    finally:
        engine.dispose()
    return False


def test_a_server_that_stops_in_german_is_away(german: Server, kit: Kit, tmp_path: Path) -> None:
    engine = create_engine(german.url)
    with engine.connect():  # until it ends, the server refuses others
        german.call("pg_ctl", "-W", "-m", "smart", "stop")
        wait_until(lambda: refuses(german.url))
        done = kit("sync", "--store", german.url, KIT_HOME=str(tmp_path))
        german.stop()
    engine.dispose()
    german.start()
    assert (done.returncode, done.stderr) == (0, "") and "nothing was delivered" in done.stdout


#: A session whose samples come as fast as they are stored, and which says of each when it is safe.
SESSION = """
    import sys
    from dataclasses import replace
    from pathlib import Path
    from kit.core.codec import decode_json
    from kit.model.event import SampleTaken, StatusChanged
    from kit.model.session import DONE, Session
    from kit.store import Outbox, open_store
    url, data = sys.argv[1], Path(sys.argv[2])
    session = decode_json(Session, (data / "session.json").read_bytes())
    head = replace(session, status="running", samples=())
    with Outbox(head, open_store(url, data / "kit.db", patient=True), data, lambda text: None) as outbox:
        outbox.create(head)
        for sample in session.samples:
            outbox.take(SampleTaken(sample))
            print(sample.round, flush=True)
        outbox.take(StatusChanged(DONE))
"""


def started(url: str, data: Path, rounds: int) -> tuple[subprocess.Popen[str], str]:
    session = night(1, 0.1, rounds=rounds)
    data.mkdir(parents=True)
    (data / "session.json").write_text(encode_json(session))
    words = [sys.executable, "-c", textwrap.dedent(SESSION), url, str(data)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True), session.id


@pytest.mark.parametrize("after", [1, 9, 40])
def test_a_kit_that_is_killed_amid_deliveries_has_kept_what_it_said(
    database: str, kit: Kit, tmp_path: Path, after: int
) -> None:
    data = tmp_path / "data"
    process, name = started(database, data, rounds=400)
    assert process.stdout
    safe = [process.stdout.readline() for _ in range(after)]
    os.kill(process.pid, signal.SIGKILL)
    safe += process.stdout.readlines()
    process.wait()
    again = [path.read_bytes() for path in (data / "outbox").glob("*.jsonl")]
    for content in again + again:  # as where the store's word got lost, too
        (data / "outbox" / f"{name}.jsonl").write_bytes(content)
        assert kit("sync", "--store", database, KIT_HOME=str(tmp_path)).returncode == 0
    session = open_store(database, data / "kit.db").get(name)
    assert session.status != RUNNING
    found = runs(session.samples)
    assert set(found.values()) == {1} and len(safe) <= len(found) <= len(safe) + 1


def test_a_server_that_is_killed_amid_deliveries_gets_each_run_once(
    postgresql: Server, database: str, tmp_path: Path
) -> None:
    """Three times, at whatever statement it happens to be."""
    data = tmp_path / "data"
    process, name = started(database, data, rounds=150)
    assert process.stdout
    for _ in range(3):
        for _ in range(20):
            process.stdout.readline()
        postgresql.kill()
        postgresql.start()
    process.stdout.read()
    assert process.wait() == 0
    session = open_store(database, data / "kit.db").get(name)
    assert session.status == DONE and session.samples == night(1, 0.1, rounds=150).samples
    assert not [*(data / "outbox").iterdir()]


def test_two_that_deliver_the_same_runs_at_once_store_them_once(database: str, tmp_path: Path) -> None:
    """Copies of one outbox in two homes: no lock of files keeps them apart."""
    session = night(1, 0.1, rounds=100)
    open_store(database, tmp_path / "kit.db").create(replace(session, samples=()))
    words = [
        sys.executable, "-c",
        "import sys; from pathlib import Path; from kit.store import open_store; from kit.model.session import Session;"
        "from kit.core.codec import decode_json; from kit.model.event import SampleTaken; "
        "s = decode_json(Session, Path(sys.argv[2]).read_bytes());"
        "t = open_store(sys.argv[1], Path(sys.argv[2])); [t.take(s.id, [SampleTaken(x)]) for x in s.samples]",
        database, str(tmp_path / "session.json"),
    ]  # fmt: skip
    (tmp_path / "session.json").write_text(encode_json(session))
    both = [subprocess.Popen(words) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert runs(open_store(database, tmp_path / "kit.db").get(session.id).samples) == runs(session.samples)
