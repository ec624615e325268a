"""Owner, writers and readers of a shared store, kits of two schemas at one store, and its views."""

from __future__ import annotations

import hashlib
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ProgrammingError

from kit.analysis.runs.compare import Comparison
from kit.core.errors import KitError, UsageError
from kit.extra.sharing.rules import FILLED_IN, RULES
from kit.extra.sharing.views import VIEWS
from kit.host.machine import read_host
from kit.model.arm import parse_arms
from kit.model.event import FactsKnown, RunFlagged, SampleTaken, StatusChanged
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from kit.model.session import DONE, INTERRUPTED, RUNNING
from kit.session.setup.resumable import record_begun
from kit.store import Outbox, open_store
from kit.store.schema.outcomes import drop_other_outcomes
from kit.store.schema.tables import (
    COMPARISON_COUNTS,
    COMPARISON_FIGURES,
    COMPARISON_WORDS,
    OUTCOME_VERSION,
    SCHEMA_VERSION,
)
from tests.command_line import Kit
from tests.nights import ladder_session, night
from tests.postgresql import Server
from tests.store.finding import check_finding
from tests.stores import dump

FULL = ladder_session()


def test_outcomes_have_a_column_for_each_field_of_a_comparison() -> None:
    columns = (*COMPARISON_WORDS, *COMPARISON_COUNTS, *COMPARISON_FIGURES)
    assert sorted(columns) == sorted(item.name for item in fields(Comparison) if item.compare)


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


@pytest.mark.promise("a shared store", "A writer changes and deletes no stored figure, of its own role either.")
@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_writer_adds_and_can_neither_change_nor_delete(shared: tuple[str, str, str], tmp_path: Path) -> None:
    owner, writer, _ = shared
    store = open_store(writer, tmp_path / "kit.db")
    head = replace(FULL, status=RUNNING, samples=())
    with Outbox(head, store, tmp_path, print) as outbox:
        outbox.create(head)
        for sample in FULL.samples:
            outbox.take(SampleTaken(replace(sample, flags="")))
        outbox.take(RunFlagged("bare", "", 3, "steal 9% of real"))
        outbox.take(FactsKnown.of(FULL))
        outbox.take(StatusChanged(DONE))
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
        store.remove([FULL.id])


def refused(url: str, statement: str, *before: str) -> str:
    """What the server says to a statement that it takes no part of. ``before``: those that it takes first."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            for item in before:
                connection.execute(text(item))
            with pytest.raises(ProgrammingError) as found:
                connection.execute(text(statement))
        return str(found.value.orig)
    finally:
        engine.dispose()


OUTCOME = (
    "INSERT INTO kit_outcomes (session, version, position, whole, digests, arm, baseline, phase, metric, point, unit, "
    "better, verdict, verdict_all, covariate, n, family, borrowed, ratio) "
    "SELECT session, {version}, {position}, whole, digests, arm, baseline, phase, metric, point, unit, "
    "better, verdict, verdict_all, covariate, n, family, borrowed, 0.5 "
    "FROM kit_outcomes WHERE session = '2026-0001' AND whole AND metric = 'real'"
)
SAMPLE = (
    "INSERT INTO kit_samples (session, arm, round, kind, status, started, error, log, digests) "
    "VALUES ('2026-0001', 'bare', 9, 'measured', 'ok', 5.0, '', '', '{}')"
)
#: By the number of a run, and of the phase after its last.
PHASE = (
    "INSERT INTO kit_phases (sample, position, name, status, real) SELECT max(id), 9, 'more', 'ok', 99 FROM kit_samples"
)
FIGURE = (
    "INSERT INTO kit_reported (sample, position, number, name, value, unit, better) "
    "SELECT max(id), 0, 9, 'speed', 99, '', '' FROM kit_samples"
)
#: So that the store's own names lead elsewhere.
ELSEWHERE = (
    "CREATE TEMP TABLE kit_sessions AS SELECT * FROM kit_sessions",
    "UPDATE pg_temp.kit_sessions SET role = CURRENT_USER, status = 'running'",
    "CREATE TEMP TABLE kit_samples AS SELECT * FROM kit_samples",
    "UPDATE pg_temp.kit_samples SET stored_in = txid_current()",
)


def published(url: str) -> tuple[object, ...]:
    """All that both views show."""
    engine = create_engine(url)
    with engine.connect() as connection:
        views = [connection.execute(text(f"SELECT * FROM {view} ORDER BY 1, 2, 3, 4, 6, 7")).all() for view in VIEWS]
    engine.dispose()
    return tuple(sorted(str(row) for view in views for row in view))


@pytest.mark.promise("a shared store", "A writer changes and deletes no stored figure, of its own role either.")
@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("statements", "says"),
    [
        ((OUTCOME.format(version=1_000_000, position=0),), "the session 2026-0001 is of the role {owner}, not of"),
        ((OUTCOME.format(version=1, position=0),), "is of the role {owner}"),
        ((SAMPLE,), "is of the role {owner}"),
        (("UPDATE kit_samples SET flags = 'steal'",), "is of the role {owner}"),
        (("UPDATE kit_sessions SET status = 'failed'",), "is of the role {owner}"),
        (("UPDATE kit_sessions SET facts = '{}'",), "is of the role {owner}"),
        ((PHASE,), "is stored: nothing is added to it"),
        ((FIGURE,), "is stored: nothing is added to it"),
        ((*ELSEWHERE[:2], "UPDATE public.kit_samples SET flags = 'steal'"), "is of the role {owner}"),
        ((*ELSEWHERE[2:], PHASE.replace("INTO kit", "INTO public.kit")), "is stored: nothing is added to it"),
    ],
)
def test_a_writer_changes_nothing_that_another_role_has_published(
    shared: tuple[str, str, str], tmp_path: Path, statements: tuple[str, ...], says: str
) -> None:
    owner, writer, _ = shared
    store = open_store(owner, tmp_path / "kit.db")
    store.add(night(1, 0.1))
    before = published(owner)
    *first, last = statements
    assert says.format(owner=owner.partition("//")[2].partition("@")[0]) in refused(writer, last, *first)
    assert published(owner) == before


@pytest.mark.promise("a shared store", "A writer changes and deletes no stored figure, of its own role either.")
@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("statements", "says"),
    [
        ((PHASE,), "is stored: nothing is added to it"),
        ((FIGURE,), "is stored: nothing is added to it"),
        (("UPDATE kit_samples SET flags = flags", PHASE), "is stored: nothing is added to it"),
        ((OUTCOME.format(version=OUTCOME_VERSION, position=99),), "are stored: nothing is added to them"),
    ],
)
def test_nothing_is_added_to_what_is_stored_by_the_same_role_either(
    shared: tuple[str, str, str], tmp_path: Path, statements: tuple[str, ...], says: str
) -> None:
    owner, writer, _ = shared
    open_store(writer, tmp_path / "kit.db").add(night(1, 0.1))
    before = published(owner)
    *first, last = statements
    assert says in refused(writer, last, *first)
    assert published(owner) == before


@pytest.mark.promise("a shared store", "Views show no outcome of statistics that the schema does not know.")
@pytest.mark.machine
@pytest.mark.unmeasured
def test_outcomes_of_statistics_that_nobody_knows_are_not_shown(shared: tuple[str, str, str], tmp_path: Path) -> None:
    owner, writer, _ = shared
    open_store(writer, tmp_path / "kit.db").add(night(1, 0.1))
    before = published(owner)
    engine = create_engine(writer)
    with engine.begin() as connection:  # of its own session, which it may
        connection.execute(text(OUTCOME.format(version=1_000_000, position=0)))
    engine.dispose()
    assert published(owner) == before
    store = open_store(owner, tmp_path / "kit.db")
    with store.writing() as connection:
        drop_other_outcomes(connection)
    assert published(owner) == before


@pytest.mark.promise("a shared store", "A writer adds nothing to a session of another role.")
@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("sessions", "role", "'another'"), ("samples", "stored_in", "1"), ("samples", "id", "5"),
     ("outcomes", "stored_in", "1")],
)  # fmt: skip
def test_a_writer_gives_no_column_that_says_who_has_stored_what(
    shared: tuple[str, str, str], table: str, column: str, value: str
) -> None:
    assert "permission denied" in refused(shared[1], f"INSERT INTO kit_{table} ({column}) VALUES ({value})")


@pytest.mark.machine
@pytest.mark.unmeasured
def test_views_say_which_role_has_stored_a_session(shared: tuple[str, str, str], tmp_path: Path) -> None:
    owner, writer, reader = shared
    open_store(owner, tmp_path / "kit.db").add(night(1, 0.1))
    open_store(writer, tmp_path / "kit.db").add(night(2, 0.1))
    engine = create_engine(reader)
    with engine.connect() as connection:
        for view in VIEWS:
            found = connection.execute(text(f"SELECT DISTINCT session, role FROM {view} ORDER BY session")).all()
            names = [url.partition("//")[2].partition("@")[0] for url in (owner, writer)]
            assert [tuple(row) for row in found] == list(zip(("2026-0001", "2026-0002"), names, strict=True))
    engine.dispose()


@pytest.mark.promise("a shared store", "A writer adds nothing to a session of another role.")
@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_session_of_another_role_is_refused_in_one_line(shared: tuple[str, str, str], tmp_path: Path) -> None:
    owner, writer, _ = shared
    open_store(owner, tmp_path / "kit.db").add(night(1, 0.1))
    with pytest.raises(KitError) as found:
        open_store(writer, tmp_path / "kit.db").take("2026-0001", [StatusChanged(RUNNING)])
    assert "CONTEXT" not in found.value.message and "use the role that began the session" in found.value.hint


@pytest.mark.promise("a shared store", "`--resume` runs only what this user has begun here, unchanged.")
@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize("fleet", [False, True])
def test_a_session_that_a_writer_has_planted_is_not_resumed(
    shared: tuple[str, str, str], kit: Kit, tmp_path: Path, fleet: bool
) -> None:
    """It says all that a session of this machine, or of the user's fleet, says: its command would run as root."""
    owner, writer, _ = shared
    ours = replace(night(1, 0.1), facts={"machine": read_host().machine}, imported=False, samples=())
    ours = replace(ours, status=INTERRUPTED, facts={**ours.facts, **({"worker": "builder-0"} if fleet else {})})
    ours = replace(
        ours, plan=make_plan(parse_arms(",".join(ours.arms)), SessionOptions(rounds=4, seed=ours.seed, control=False))
    )
    record_begun(tmp_path / "home" / "data", ours, print)
    open_store(owner, tmp_path / "kit.db").add(ours)
    engine = create_engine(writer)
    columns = (
        "created, kit_version, title, status, request, arms, baselines, seed, plan, facts, not_run, imported, machine"
    )
    planted = columns.replace("created", "created + 60").replace("request", "replace(request, '\"mine\"', '\"sh\"')")
    with engine.begin() as connection:  # as by psql
        select = f"SELECT 'planted', {planted} FROM kit_sessions"
        connection.execute(text(f"INSERT INTO kit_sessions (id, {columns}) {select}"))
    engine.dispose()
    words = ("--fleet", "127.0.0.1:1") if fleet else ()
    done = kit("compare", "--resume", "last", *words, "--store", owner, KIT_HOME=str(tmp_path / "home"))
    assert done.returncode == 2 and "session planted was not begun here" in done.stderr, done.stderr


@pytest.mark.promise("a shared store", "A reader changes nothing.")
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
    document = (Path(__file__).parents[3] / "docs/reference/store-views.md").read_text()
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


def test_views_are_there_in_sqlite_too(tmp_path: Path) -> None:
    open_store("", tmp_path / "kit.db").add(night(1, 0.1))
    with create_engine(f"sqlite:///{tmp_path}/kit.db").connect() as connection:
        found = connection.execute(
            text("SELECT scenario, machine, created, arm FROM kit_penalties WHERE whole AND metric = 'real'")
        ).one()
        assert tuple(found) == ("mine", "aa", "2001-09-10 01:46:40", "layer:overlay2")
        assert connection.execute(text("SELECT count(*) FROM kit_runs")).scalar_one() == 16


def test_changed_views_and_rules_have_a_new_version_of_the_schema() -> None:
    """Or stores that exist keep the old ones: they are made with the store alone."""
    digest = hashlib.sha256(f"{VIEWS}{RULES}{FILLED_IN}".encode()).hexdigest()[:12]
    assert (digest, SCHEMA_VERSION) == ("1cd0da4b1003", 22)


def test_stores_are_kept_in_two_databases_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the kit keeps no store in mysql"):
        open_store("mysql://host/db", tmp_path / "kit.db")
