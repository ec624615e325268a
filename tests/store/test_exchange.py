"""Sessions from store to store, to pytest-benchmark, and in a PostgreSQL server."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from kit.core.codec import decode_json, encode_json
from kit.core.errors import KitError, UsageError
from kit.model.event import FactsKnown, RunFlagged, SampleTaken
from kit.model.sample import Phase, Sample
from kit.model.session import NotRun, Request, Session
from kit.parsers.figure import Reported
from kit.store import Outbox, open_store
from kit.store.exchange import load
from tests.command_line import Kit
from tests.nights import ladder_session, night
from tests.postgresql import Server
from tests.stores import dump


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "kit.db"
    store = open_store("", path)
    for session in (night(1, 0.05), night(2, 0.2), ladder_session()):
        store.add(session)
    store.close()
    return path


@pytest.fixture
def url(exported: Path, tmp_path: Path) -> str:
    shutil.copy(exported, tmp_path / "kit.db")
    return f"sqlite:///{tmp_path}/kit.db"


@pytest.mark.parametrize("name", ["all.json", "all.json.gz"])
def test_export_and_import(kit: Kit, url: str, tmp_path: Path, name: str) -> None:
    done = kit("export", "--all", "-o", tmp_path / name, "--store", url)
    assert (done.returncode, done.stdout) == (0, "")
    other = f"sqlite:///{tmp_path}/other.db"
    done = kit("import", tmp_path / name, "--store", other)
    assert done.returncode == 0 and "2026-0002: mine, 8 samples" in done.stdout
    one, two = (open_store(item, tmp_path) for item in (url, other))
    brought = [replace(one.get(item.id), imported=True) for item in one.list()]
    assert [two.get(item.id) for item in two.list()] == brought
    assert kit("import", tmp_path / name, "--store", other).stdout.count("already stored") == 3


def test_bad_exports_and_imports(kit: Kit, url: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"kit-export": 1, "sessions": [{}]}')
    (tmp_path / "new.json").write_text('{"kit-export": 99, "sessions": []}')
    (tmp_path / "good.json").write_text(dump([night(1, 0.1)]))
    (tmp_path / "time.txt").write_text("real 0m1.0s\nuser 0m1.0s\nsys 0m0.1s\n")
    for words, says in (
        (("export", "nosuch", "--store", url), "no session 'nosuch'"),
        (("export", "--store", url), "no session given"),
        (("export", "last", "--all", "--store", url), "no session given"),
        (("export", "last", "-o", "/nonexistent/x", "--store", url), "can't be written"),
        (("import", tmp_path / "bad.json"), "not a Session as the kit writes it"),
        (("import", tmp_path / "new.json"), "newer kit"),
        (("import", tmp_path / "good.json", tmp_path / "time.txt"), "one after another"),
        (("compare-sessions", "nosuch", "last", "--store", url), "no session 'nosuch'"),
        (("history", "nosuch", "bare", "--store", url), "no finished session of 'nosuch'"),
    ):
        done = kit(*words)
        assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_histories_and_comparisons_are_printed(kit: Kit, url: str) -> None:
    found = kit("compare-sessions", "2026-0001", "2026-0002", "--store", url)
    assert found.returncode == 0 and "larger in B" in found.stdout
    found = kit("compare-sessions", "2026-0001", "2026-0002", "--format", "markdown", "--store", url)
    assert "| layer:overlay2 / bare" in found.stdout
    for form, says in (("table", "●"), ("markdown", "| 2026-0001"), ("json", '"series"'), ("csv", "series,session")):
        done = kit("history", "mine", "layer:overlay2", "--format", form, "--store", url)
        assert done.returncode == 0 and says in done.stdout, done.stdout


def test_sessions_are_listed_by_what_they_are(kit: Kit, url: str) -> None:
    def listed(*words: str) -> str:
        return kit("sessions", "--store", url, *words).stdout

    assert "2026-0002" in listed("--scenario", "mine") and "full" not in listed("--scenario", "mine")
    assert "full" in listed("--arm", "layer:vfs") and "2026-0001" not in listed("--arm", "layer:vfs")
    assert "no session matches" in listed("--machine", "zz") and "2026-0001" in listed("--machine", "a")
    listing = kit("sessions", "--store", url, "-n", "1", TZ="Asia/Tokyo").stdout
    assert "started (UTC)" in listing and "2023-11-14 22:13" in listing
    assert "2 older ones are not shown: -n 3" in listed("-n", "1")


def test_pytest_benchmark_compares_what_was_exported(kit: Kit, url: str, tmp_path: Path) -> None:
    for number, name in enumerate(("2026-0001", "2026-0002"), 1):
        path = tmp_path / f"000{number}_night.json"
        assert kit("export", name, "--format", "pytest-benchmark", "-o", path, "--store", url).returncode == 0
    program = Path(sys.executable).parent / "pytest-benchmark"
    done = subprocess.run(
        [program, "compare", *sorted(path.name for path in tmp_path.glob("000*.json")), "--columns=mean,stddev,rounds",
         "--csv", tmp_path / "out"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "benchmark 'mine build': 4 tests" in done.stdout and "mine[layer:overlay2] build (0002" in done.stdout
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * 2 * 3


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_server_is_a_store_for_several_machines(server: str, kit: Kit, tmp_path: Path) -> None:
    """Two machines come to an empty database at once; each finds the other's sessions, and cleans up after itself."""
    nights = [[replace(night(i, 0.05, machine=name), id=f"{name}-{i}") for i in range(5)] for name in "ab"]
    failed: list[BaseException] = []

    def machine(sessions: list[object]) -> None:
        try:
            store = open_store(server, tmp_path)
            for session in sessions:
                store.add(session)  # type: ignore[arg-type]
            store.close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=machine, args=(list(listed),)) for listed in nights]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    store = open_store(server, tmp_path)
    assert {item.id for item in store.list()} == {item.id for listed in nights for item in listed}
    assert store.get("a-3") == nights[0][3]
    assert len(store.history("mine", "layer:overlay2")) == 10
    full = ladder_session()
    store.add(full)
    assert store.get(full.id) == full
    store.take(full.id, [RunFlagged("bare", "", 1, "steal")])
    store.take(full.id, [FactsKnown({"kernel": "7"}, full.not_run)])
    assert store.get(full.id).facts == {"kernel": "7"}
    store.remove([full.id])
    with pytest.raises(UsageError):
        store.get(full.id)
    listed = kit("sessions", "--store", server)
    assert listed.returncode == 0 and "b-4" in listed.stdout
    exported = kit("export", "--all", "-o", tmp_path / "all.json", "--store", server)
    assert exported.returncode == 0
    assert kit("import", tmp_path / "all.json", "--store", f"sqlite:///{tmp_path}/x.db").stdout.count("samples") == 10


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_server_that_is_not_there_is_one_line_without_a_password(kit: Kit, server: str) -> None:
    done = kit("sessions", "--store", "postgresql+psycopg://me:secret@127.0.0.1:1/kit")
    assert done.returncode == 2 and "secret" not in done.stderr and "Traceback" not in done.stderr
    assert "check path, rights and server" in done.stderr


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_role_that_may_only_read_can_serve(server: str, tmp_path: Path) -> None:
    open_store(server, tmp_path).add(replace(night(50, 0.05), id="for-reader"))
    with create_engine(server).begin() as connection:
        connection.execute(text("CREATE ROLE reader LOGIN"))
        connection.execute(text("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"))
    store = open_store(server.replace("kit@", "reader@"), tmp_path, read_only=True)
    assert "for-reader" in {item.id for item in store.list()}
    assert "for-reader" in {item.session for item in store.history("mine", "layer:overlay2")}
    with pytest.raises(KitError, match="permission denied"):
        store.add(night(51, 0.05))


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_server_that_goes_away_ends_in_one_line(server: str, tmp_path: Path) -> None:
    store = open_store(server, tmp_path)
    with create_engine(server).begin() as connection:
        connection.execute(text("ALTER TABLE kit_samples RENAME TO kit_gone"))
    try:
        with pytest.raises(KitError, match=r"the store postgresql.*kit_samples"):
            store.add(night(99, 0.1))
    finally:
        with create_engine(server).begin() as connection:
            connection.execute(text("ALTER TABLE kit_gone RENAME TO kit_samples"))


def odd_session(name: str) -> Session:
    """What workloads print and users write, at its oddest."""
    odd = "N" * 300 + "\0 \udcff \x1b[31m 𝄞"
    phase = Phase(odd, odd, real=1.0, reported=(Reported(odd, 1.0, odd, odd),))
    sample = Sample("bare", 1, "measured", odd, 0.0, (phase,), error=odd, log=odd, digests=((odd, odd),), flags=odd)
    return replace(
        ladder_session(), id=name, title=odd, status="running", kit_version=odd, facts={odd: odd}, samples=(sample,),
        seed=2**40, request=Request(command=(odd,)), not_run=(NotRun(odd, odd, odd),),
    )  # fmt: skip


def as_stored(session: Session) -> Session:
    return decode_json(Session, encode_json(session))


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_server_takes_words_of_any_length_and_kind(server: str, tmp_path: Path) -> None:
    url = f"{server}&options=-csearch_path%3Dodd"
    with create_engine(server).begin() as connection:
        connection.execute(text("CREATE SCHEMA odd"))
    session = odd_session("odd-0")
    store, sqlite = open_store(url, tmp_path / "kit.db"), open_store("", tmp_path / "kit.db")
    for one in (store, sqlite):
        one.create(replace(session, samples=()))
        one.take(session.id, [SampleTaken(session.samples[0])])
        assert one.get(session.id) == as_stored(session)
    assert [*load(dump([store.get(session.id)]), "x")] == [replace(as_stored(session), imported=True)]
    store.close()


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_server_that_is_stopped_for_a_while_ends_no_session(postgresql: Server, tmp_path: Path) -> None:
    said: list[str] = []
    session = replace(ladder_session(), id="stopped", status="running", samples=())
    samples = ladder_session().samples
    store = open_store(postgresql.url, tmp_path / "kit.db", tell=said.append)
    with Outbox(session, store, tmp_path, said.append) as outbox:
        store.create(session)
        outbox.take(SampleTaken(samples[0]))
        postgresql.stop()
        try:
            outbox.take(SampleTaken(samples[1]))
            outbox.take(SampleTaken(samples[2]))
        finally:
            postgresql.start()
        assert store.get(session.id).samples == samples[:1]
        outbox.take(SampleTaken(samples[3]))
        postgresql.stop()
        outbox.take(SampleTaken(samples[4]))
    postgresql.start()
    assert "waits in" in said[0] and "is back" in said[1] and "delivers them" in said[-1]
    assert all("\n" not in line for line in said)
    again = open_store(postgresql.url, tmp_path / "kit.db", tell=said.append)
    assert again.get(session.id).samples == samples[:5] and "that had waited" in said[-1]
    assert [*(tmp_path / "outbox").iterdir()] == []
