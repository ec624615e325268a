"""Owner, writers and readers of a shared store, kits of two schemas at one store, and its views."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import ProgrammingError

from kit.analysis.compare import Comparison
from kit.core.errors import KitError, UsageError
from kit.model.session import DONE, RUNNING
from kit.store import Outbox, open_store
from kit.store.exchange import dump
from kit.store.schema import COMPARISON_COUNTS, COMPARISON_FIGURES, COMPARISON_WORDS, SCHEMA_VERSION
from kit.store.views import VIEWS
from tests.command_line import Kit
from tests.first_schema import make_ninth_schema
from tests.nights import ladder_session, night
from tests.postgresql import Server
from tests.store.finding import check_finding

FULL = ladder_session()


def test_outcomes_have_a_column_for_each_field_of_a_comparison() -> None:
    """A new field needs one, and so a migration."""
    columns = (*COMPARISON_WORDS, *COMPARISON_COUNTS, *COMPARISON_FIGURES)
    assert sorted(columns) == sorted(item.name for item in fields(Comparison))


@pytest.fixture
def shared(postgresql: Server, database: str, kit: Kit) -> tuple[str, str, str]:
    """The URLs of a store's owner, a writer and a reader."""
    name = database.partition("//")[2].partition("@")[0]
    writer, reader = f"{name}-writer", f"{name}_reader"
    postgresql.run(f'CREATE ROLE "{writer}" LOGIN', f"CREATE ROLE {reader} LOGIN")
    for words in (("setup",), ("grant", "writer", writer), ("grant", "reader", reader)):
        done = kit("store", *words, "--store", database)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert f"writers: {writer}" in done.stdout and f"readers: {reader}" in done.stdout
    return database, *(database.replace(f"//{name}@", f"//{role}@") for role in (writer, reader))  # type: ignore[return-value]


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_writer_adds_and_can_neither_change_nor_delete(shared: tuple[str, str, str], tmp_path: Path) -> None:
    owner, writer, _ = shared
    store = open_store(writer, tmp_path / "kit.db")
    head = replace(FULL, status=RUNNING, samples=())
    with Outbox(head, store, tmp_path, print) as outbox:
        outbox.create(head)
        for sample in FULL.samples:
            outbox.add_sample(head.id, replace(sample, flags=""))
        outbox.set_flags(head.id, "bare", "", 3, "steal 9% of real")
        outbox.update(replace(head, facts=FULL.facts))
        outbox.set_status(head.id, DONE)
    store.keep_outcomes(FULL)
    store.add(night(1, 0.1))
    assert open_store(owner, tmp_path / "kit.db").get(FULL.id) == FULL
    assert len(store.history("mine", "layer:overlay2")) == 1
    for statement in (
        "DELETE FROM kit_samples",
        "DELETE FROM kit_sessions",
        "DELETE FROM kit_outcomes",
        "UPDATE kit_phases SET real = 1",
        "UPDATE kit_samples SET status = 'failed'",
        "UPDATE kit_samples SET started = 1",
        "UPDATE kit_sessions SET created = 1",
        "UPDATE kit_outcomes SET ratio = 1",
        "UPDATE kit_schema SET version = 1",
        "TRUNCATE kit_sessions CASCADE",
        "DROP VIEW kit_runs",
        "SELECT setval('kit_samples_id_seq', 1)",
    ):
        assert "permission denied" in refused(writer, statement) or "must be owner" in refused(writer, statement)
    with pytest.raises(KitError, match="permission denied"):
        store.remove(FULL.id)


def refused(url: str, statement: str) -> str:
    engine = create_engine(url)
    try:
        with pytest.raises(ProgrammingError) as found, engine.begin() as connection:
            connection.execute(text(statement))
        return str(found.value.orig)
    finally:
        engine.dispose()


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_reader_reads_and_is_refused_in_one_line(shared: tuple[str, str, str], kit: Kit, tmp_path: Path) -> None:
    owner, _, reader = shared
    open_store(owner, tmp_path / "kit.db").add(night(1, 0.1))
    (tmp_path / "x.json").write_text(dump([night(2, 0.1)]))
    for words in (("import", tmp_path / "x.json"), ("compare", "--rounds", "1", "--", "true")):
        done = kit(words[0], "--store", reader, *words[1:], KIT_HOME=str(tmp_path / "home"))
        assert done.returncode == 1 and "permission denied for table kit_sessions" in done.stderr, done.stderr
        assert "kit store grant writer" in done.stderr and "Traceback" not in done.stderr
    assert not [*(tmp_path / "home").rglob("*.jsonl")]
    assert "2026-0001" in kit("sessions", "--store", reader).stdout
    assert "2026-0001" in kit("history", "mine", "layer:overlay2", "--store", reader).stdout
    engine = create_engine(reader)
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT ratio, low, high, rounds FROM kit_penalties WHERE whole AND metric = 'real'")
        ).one()
        runs = connection.execute(text("SELECT count(*), avg(user_time) FROM kit_runs WHERE phase = 'build'")).one()
    engine.dispose()
    ours = open_store(owner, tmp_path / "kit.db").history("mine", "layer:overlay2")[0].outcome.comparison
    assert tuple(found) == (ours.ratio, ours.low, ours.high, 4) and runs[0] == 8 and 10 < runs[1] < 11


@pytest.mark.machine
@pytest.mark.unmeasured
def test_queries_of_the_document_find_something(shared: tuple[str, str, str], tmp_path: Path) -> None:
    owner, _, reader = shared
    session = night(1, 0.1)
    flagged = replace(session.samples[0], flags="steal 9% of real")
    open_store(owner, tmp_path / "kit.db").add(replace(session, samples=(flagged, *session.samples[1:])))
    document = (Path(__file__).parents[2] / "docs/store.md").read_text()
    queries = re.findall(r"^```sql\n(.*?)^```", document, re.M | re.S)
    queries += re.findall(r"^    query: \|\n(.*?)^```", document, re.M | re.S)
    assert len(queries) == 3
    engine = create_engine(reader)
    with engine.connect() as connection:
        for query in queries:
            plain = re.sub(r"\$__timeFilter\(\w+\)", "TRUE", query).replace("%{BRANCH}", "'aa'")
            found = connection.exec_driver_sql(plain).all()
            assert len(found) == 1, query
    engine.dispose()


@pytest.mark.machine
@pytest.mark.unmeasured
def test_what_can_not_be_granted_is_one_line(shared: tuple[str, str, str], kit: Kit, tmp_path: Path) -> None:
    owner, writer, _ = shared
    for words, code, says in (
        (("grant", "writer", 'no "one', "--store", owner), 2, 'CREATE ROLE "no ""one" LOGIN'),
        (("grant", "reader", owner.partition("//")[2].partition("@")[0], "--store", owner), 2, "owns the store"),
        (("grant", "reader", "kit", "--store", writer), 1, "permission denied"),
        (("grant", "reader", "kit", "--store", f"sqlite:///{tmp_path}/kit.db"), 2, "SQLite has no roles"),
    ):
        done = kit("store", *words)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False) and says in done.stderr, done.stderr


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_server_finds_sessions_by_what_they_are(database: str, tmp_path: Path) -> None:
    check_finding(open_store(database, tmp_path / "kit.db"))


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_server_brought_up_to_date_has_what_a_new_one_has(database: str, tmp_path: Path) -> None:
    found = []
    for old in (False, True):
        if old:
            made_older(database)
        open_store(database, tmp_path / "kit.db").close()
        engine = create_engine(database)
        with engine.connect() as connection:
            columns = "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
            own = connection.execute(text(f"{columns} WHERE table_schema = 'public'")).all()
            indexes = connection.execute(text("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'")).all()
        engine.dispose()
        found.append((set(map(tuple, own)), set(map(tuple, indexes))))
    assert found[0] == found[1] and len(found[0][1]) > 10


def made_older(url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        make_ninth_schema(connection)
    engine.dispose()


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_newer_kit_that_may_not_migrate_and_an_older_one_get_one_line(
    shared: tuple[str, str, str], kit: Kit, tmp_path: Path
) -> None:
    owner, writer, reader = shared
    open_store(owner, tmp_path / "kit.db").add(night(1, 0.1))
    made_older(owner)
    for url in (writer, reader):
        done = kit("sessions", "--store", url)
        assert done.returncode == 2 and "kit store setup --store URL" in done.stderr
        assert f"has schema 9, this kit needs schema {SCHEMA_VERSION}" in done.stderr
    assert kit("store", "setup", "--store", owner).returncode == 0
    assert "2026-0001" in kit("sessions", "--store", writer, "--machine", "aa").stdout
    open_store(writer, tmp_path / "kit.db").add(night(2, 0.1))  # rights on what is new
    engine = create_engine(owner)
    with engine.begin() as connection:
        connection.execute(text("UPDATE kit_schema SET version = version + 1"))
    engine.dispose()
    done = kit("sessions", "--store", writer)
    assert done.returncode == 2 and f"schema {SCHEMA_VERSION + 1}, this kit knows {SCHEMA_VERSION}" in done.stderr
    assert "update the kit" in done.stderr


def written_by_ninth(connection: Connection) -> None:
    """As a kit of the schema before writes a run, which knows nothing of new columns."""
    connection.execute(
        text(
            "INSERT INTO kit_samples (session, arm, block, kind, status, started, error, log, digests) "
            "VALUES ('2026-0001', 'bare', 9, 'measured', 'ok', 5.0, '', '', '{}')"
        )
    )


@pytest.mark.machine
@pytest.mark.unmeasured
def test_an_old_kit_goes_on_writing_while_two_new_ones_migrate(database: str, tmp_path: Path) -> None:
    store = open_store(database, tmp_path / "kit.db")
    store.add(night(1, 0.1))
    store.close()
    made_older(database)
    engine = create_engine(database)
    words = [sys.executable, "-m", "kit", "store", "setup", "--store", database]
    with engine.begin() as connection:  # a run that is half written: both wait for it
        written_by_ninth(connection)
        both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        with pytest.raises(subprocess.TimeoutExpired):
            both[0].wait(2)
    assert [(process.communicate()[1], process.returncode) for process in both] == [("", 0), ("", 0)]
    with engine.begin() as connection:
        written_by_ninth(connection)
    engine.dispose()
    found = open_store(database, tmp_path / "kit.db").get("2026-0001").samples
    assert len(found) == 8 + 2


def test_views_are_there_in_sqlite_too(tmp_path: Path) -> None:
    open_store("", tmp_path / "kit.db").add(night(1, 0.1))
    with create_engine(f"sqlite:///{tmp_path}/kit.db").connect() as connection:
        found = connection.execute(
            text("SELECT scenario, machine, created, arm FROM kit_penalties WHERE whole AND metric = 'real'")
        ).one()
        assert tuple(found) == ("mine", "aa", "2001-09-10 01:46:40", "layer:overlay2")
        assert connection.execute(text("SELECT count(*) FROM kit_runs")).scalar_one() == 16


def test_a_changed_view_has_a_new_version_of_the_schema() -> None:
    """Or stores that are there keep the old one: views are made where a store is made or brought up to date."""
    digest = hashlib.sha256("".join(VIEWS.values()).encode()).hexdigest()[:12]
    assert (digest, SCHEMA_VERSION) == ("ab7002b4f1e1", 14)


def check_old_view(url: str, default: Path, created: str, *others: str) -> None:
    """Of a store of schema 12, in which kit_penalties showed sessions that run, too."""
    open_store(url, default).add(replace(night(1, 0.1), status=RUNNING))
    old = VIEWS["kit_penalties"].replace(" AND s.status = 'done'", "").format(created=created)
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in ("DROP VIEW kit_penalties", f"CREATE VIEW kit_penalties AS {old}", *others):
            connection.execute(text(statement))
        connection.execute(
            text("INSERT INTO kit_outcomes (session, version, position, whole, digests, arm, baseline, phase, metric, "
                 "point, unit, better, verdict, verdict_all, covariate, n, family, borrowed) VALUES "
                 "('2026-0001', 1, 0, TRUE, '', 'a', '', '', '', '', '', '', '', '', '', 0, 0, 0)")
        )  # fmt: skip
        connection.execute(text("UPDATE kit_schema SET version = 12"))
    shows = text("SELECT count(*) FROM kit_penalties")
    with engine.connect() as connection:
        assert connection.execute(shows).scalar_one() == 1
    open_store(url, default).close()
    with engine.connect() as connection:
        assert connection.execute(shows).scalar_one() == 0
    engine.dispose()


def test_a_store_with_the_view_of_an_older_kit_gets_todays(tmp_path: Path) -> None:
    check_old_view(f"sqlite:///{tmp_path}/kit.db", tmp_path / "kit.db", "s.created")


@pytest.mark.machine
@pytest.mark.unmeasured
def test_so_does_a_server_and_views_of_others_stand_on_it(database: str, tmp_path: Path) -> None:
    others = "CREATE VIEW mine AS SELECT ratio FROM kit_penalties"
    check_old_view(database, tmp_path / "kit.db", "to_timestamp(s.created)", others)


def test_stores_are_kept_in_two_databases_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the kit keeps no store in mysql"):
        open_store("mysql://host/db", tmp_path / "kit.db")
