"""Tables of the store. A change is a function in _MIGRATIONS; a column of a metric comes with its line in the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    bindparam,
    func,
    select,
    text,
    true,
    update,
)

from kit.core.codec import UnreadableError, decode_json, encode_json, storable
from kit.model.fact import MACHINE
from kit.model.metric import MEASURED, METRICS
from kit.model.sample import PHASE_FIELDS


def _sweeps_and_bursts(connection: Connection) -> None:
    doubles = ("memory_before DOUBLE PRECISION", "memory_after DOUBLE PRECISION")
    for column in (*doubles, "point TEXT NOT NULL DEFAULT ''", "flags TEXT NOT NULL DEFAULT ''", "repeats INTEGER"):
        connection.execute(text(f"ALTER TABLE kit_samples ADD COLUMN {column}"))


def _reported_figures(connection: Connection) -> None:
    reported.create(connection)


def _background_load(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE kit_samples ADD COLUMN load TEXT NOT NULL DEFAULT ''"))


def _outcomes(connection: Connection) -> None:
    """Those of today come with _many_machines."""


def _imported_sessions(connection: Connection) -> None:
    """Of sessions that are there already nobody knows where they were run: they are taken for imported."""
    connection.execute(text("ALTER TABLE kit_sessions ADD COLUMN imported BOOLEAN NOT NULL DEFAULT TRUE"))


def _tasks(connection: Connection) -> None:
    tasks.create(connection)


def _traced(connection: Connection) -> None:
    calls.create(connection)
    profiles.create(connection)


def _any_length(connection: Connection) -> None:
    """PostgreSQL refuses what is longer than its column, and what needs more than 32 bits; SQLite does not."""
    if connection.dialect.name != "postgresql":
        return
    for column, kind in (
        *((f"kit_sessions.{name}", "TEXT") for name in ("kit_version", "status")),
        *((f"kit_samples.{name}", "TEXT") for name in ("kind", "status")),
        *((f"kit_phases.{name}", "TEXT") for name in ("name", "status")),
        *((f"kit_reported.{name}", "TEXT") for name in ("name", "unit", "better")),
        ("kit_sessions.seed", "BIGINT"),
    ):
        table, _, name = column.partition(".")
        connection.execute(text(f"ALTER TABLE {table} ALTER COLUMN {name} TYPE {kind}"))


def _many_machines(connection: Connection) -> None:
    """Sessions get a column for their machine, runs a name by which they are stored once; outcomes have columns, and
    are worked out anew from the samples."""
    connection.execute(text("ALTER TABLE kit_sessions ADD COLUMN machine TEXT NOT NULL DEFAULT ''"))
    connection.execute(text("ALTER TABLE kit_samples ADD COLUMN identity TEXT"))
    connection.execute(text("DROP TABLE IF EXISTS kit_outcomes"))
    connection.execute(text("DROP INDEX IF EXISTS ix_kit_samples_session"))
    outcomes.create(connection)
    for index in (*sessions.indexes, *samples.indexes):
        if index.name in ("kit_sessions_of", "kit_sessions_machine", "kit_sessions_moment", "kit_samples_once"):
            index.create(connection)
    name_machines(connection)


def name_machines(connection: Connection) -> None:
    """Fill in the machines of sessions that an older kit has written."""
    found = []
    for name, facts in connection.execute(select(sessions.c.id, sessions.c.facts).where(sessions.c.machine == "")):
        with suppress(UnreadableError):
            found.append({"its_id": name, "its_machine": machine_of(decode_json(dict[str, str], facts))})
    named = [row for row in found if row["its_machine"]]
    if named:
        mine = update(sessions).where(sessions.c.id == bindparam("its_id"))
        connection.execute(mine.values(machine=bindparam("its_machine")), named)


def machine_of(facts: Mapping[str, str]) -> str:
    """As the column holds it."""
    return storable(MACHINE.text(facts))[:MACHINE_LENGTH]


def _penalties_of_finished_sessions(connection: Connection) -> None:
    """A view was changed without a version: stores that have the 12th show it as it was when they were made. All views
    are made anew where a store is brought up to date."""


def _run_order(connection: Connection) -> None:
    """What was called slices is a run order and the length of a slice."""
    for row in connection.execute(select(sessions.c.id, sessions.c.request, sessions.c.facts)).all():
        with suppress(UnreadableError):
            request, facts = decode_json(dict[str, Any], row.request), decode_json(dict[str, str], row.facts)
            length = facts.pop("slices", "")
            if length:
                facts["run order"] = "sequential" if length == "off" else "interleaved"
                facts |= {"slice": length} if length != "off" else {}
            if why := facts.pop("why slices", ""):
                facts["why run order"] = why
            request["interleave"] = request.pop("slices", request.get("interleave", "off"))
            mine = update(sessions).where(sessions.c.id == row.id)
            connection.execute(mine.values(request=encode_json(request), facts=encode_json(facts)))
    sliced = samples.c.digests.contains('"slices":')
    for text_ in connection.execute(select(samples.c.digests).where(sliced).distinct()).scalars().all():
        digests = {key: value for key, value in decode_json(dict[str, str], text_).items() if key != "slices"}
        made = encode_json({**digests, "run order": "interleaved"})
        connection.execute(update(samples).where(samples.c.digests == text_).values(digests=made))


#: Version N → what brings a store of version N - 1 to it, beside the columns of metrics that it has first.
_MIGRATIONS: dict[int, Callable[[Connection], None]] = {
    2: _sweeps_and_bursts,
    3: _reported_figures,
    4: _background_load,
    5: _outcomes,
    6: _imported_sessions,
    8: _any_length,
    9: _tasks,
    10: _many_machines,
    11: _traced,
    13: _penalties_of_finished_sessions,
    14: _run_order,
}

SCHEMA_VERSION = max(*_MIGRATIONS, *(metric.since for metric in METRICS.values()))


def migrate(connection: Connection, version: int) -> None:
    """Bring a store of the version before to this one."""
    if version in _MIGRATIONS:
        _MIGRATIONS[version](connection)
    for name in MEASURED:
        if METRICS[name].since == version:
            connection.execute(text(f"ALTER TABLE kit_phases ADD COLUMN {name} DOUBLE PRECISION"))


class Words(TypeDecorator[str]):
    """Text of any length, as every database holds it."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value and storable(value)


metadata = MetaData()

#: Characters of a machine's name, and of a title as far as an index holds it: PostgreSQL's have an end.
MACHINE_LENGTH = TITLE_LENGTH = 100

schema = Table("kit_schema", metadata, Column("version", Integer, primary_key=True))

sessions = Table(
    "kit_sessions",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("created", Float, nullable=False, index=True),
    Column("kit_version", Words, nullable=False),
    Column("title", Words, nullable=False),
    Column("status", Words, nullable=False),
    Column("request", Words, nullable=False),  # JSON
    Column("arms", Words, nullable=False),  # JSON
    Column("baselines", Words, nullable=False),  # JSON
    Column("seed", BigInteger, nullable=False),
    Column("facts", Words, nullable=False),  # JSON
    Column("not_run", Words, nullable=False),  # JSON
    Column("imported", Boolean, nullable=False, server_default=true()),
    Column("machine", Words, nullable=False, server_default=""),  # of its facts
    Index("kit_sessions_machine", "machine", "created", postgresql_ops={"machine": "text_pattern_ops"}),
)
Index("kit_sessions_of", func.substr(sessions.c.title, 1, TITLE_LENGTH), sessions.c.created)
#: As views have it.
Index("kit_sessions_moment", func.to_timestamp(sessions.c.created)).ddl_if(dialect="postgresql")

samples = Table(
    "kit_samples",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("session", String(40), ForeignKey("kit_sessions.id", ondelete="CASCADE"), nullable=False),
    Column("arm", Words, nullable=False),
    Column("block", Integer, nullable=False),
    Column("kind", Words, nullable=False),
    Column("status", Words, nullable=False),
    Column("started", Float, nullable=False),
    Column("calibration_before", Float),
    Column("calibration_after", Float),
    Column("memory_before", Float),
    Column("memory_after", Float),
    Column("engine_seconds", Float),
    Column("error", Words, nullable=False),
    Column("log", Words, nullable=False),
    Column("digests", Words, nullable=False),  # JSON
    Column("point", Words, nullable=False, server_default=""),
    Column("flags", Words, nullable=False, server_default=""),
    Column("repeats", Integer),
    Column("load", Words, nullable=False, server_default=""),
    Column("identity", Words),  # of a run that this kit has measured, not imported
    Index("kit_samples_once", "session", "identity", unique=True),
)

_TEXT_FIELDS = ("name", "status")
_INTEGER_FIELDS = ("exit_code", "signal")

phases = Table(
    "kit_phases",
    metadata,
    Column("sample", Integer, ForeignKey("kit_samples.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    *(
        Column(
            name,
            Words if name in _TEXT_FIELDS else Integer() if name in _INTEGER_FIELDS else Float(),
            nullable=name not in _TEXT_FIELDS,
        )
        for name in PHASE_FIELDS
    ),
)


def _of_phase() -> tuple[Column[int], ...]:
    """What any number of rows of a phase are told apart by."""
    return (
        Column("sample", Integer, ForeignKey("kit_samples.id", ondelete="CASCADE"), primary_key=True),
        Column("position", Integer, primary_key=True),  # of the phase
        Column("number", Integer, primary_key=True),  # in the order in which they were said
    )


reported = Table(
    "kit_reported",
    metadata,
    *_of_phase(),
    Column("name", Words, nullable=False),
    Column("value", Float),
    Column("unit", Words, nullable=False),
    Column("better", Words, nullable=False),
)

tasks = Table(
    "kit_tasks",
    metadata,
    *_of_phase(),
    *(Column(name, Words, nullable=False) for name in ("kind", "recipe")),
    *(Column(name, Float, nullable=False) for name in ("started", "elapsed")),
    *(Column(name, Float) for name in ("user", "sys", "read_bytes", "write_bytes")),
)

calls = Table(
    "kit_calls",
    metadata,
    *_of_phase(),
    *(Column(name, Words, nullable=False) for name in ("kind", "name")),
    Column("count", BigInteger, nullable=False),
    *(Column(name, Float, nullable=False) for name in ("seconds", "disk", "daemon", "slept", "ready")),
    *(Column(name, Words, nullable=False) for name in ("histogram", "errors")),  # JSON
    Column("bytes", Float, nullable=False),
)

profiles = Table(
    "kit_profiles",
    metadata,
    *_of_phase(),
    Column("event", Words, nullable=False),
    *(Column(name, Integer, nullable=False) for name in ("samples", "lost")),
    Column("seconds", Float, nullable=False),
    Column("folded", Words, nullable=False),  # compressed
)

#: The fields of a comparison.
COMPARISON_WORDS = (
    "arm", "baseline", "phase", "metric", "point", "unit", "better", "verdict", "verdict_all", "covariate",
)  # fmt: skip
COMPARISON_COUNTS = ("n", "family", "borrowed")
COMPARISON_FIGURES = (
    "ratio", "low", "high", "low_all", "high_all", "difference", "difference_low", "difference_high",
    "difference_low_all", "difference_high_all", "detectable", "narrowing", "adjusted", "untrimmed", "spread",
)  # fmt: skip

#: What sessions found, worked out from their samples: a history reads these rows instead of all samples. They are added
#: and never changed, so that who may add needs no right to change: other statistics have another version.
outcomes = Table(
    "kit_outcomes",
    metadata,
    Column("session", String(40), ForeignKey("kit_sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),  # OUTCOME_VERSION of the kit that worked them out
    Column("position", Integer, primary_key=True),
    Column("whole", Boolean, nullable=False),
    Column("mean", Float),
    Column("base_mean", Float),
    Column("digests", Words, nullable=False),  # JSON; '' but for the first of an arm and point: they have it in common
    *(Column(name, Words, nullable=False) for name in COMPARISON_WORDS),
    *(Column(name, Integer, nullable=False) for name in COMPARISON_COUNTS),
    *(Column(name, Float) for name in COMPARISON_FIGURES),
)
#: What is mostly asked for, by one row for each session instead of all of them.
Index(
    "kit_outcomes_whole", outcomes.c.session, outcomes.c.arm, outcomes.c.metric,
    postgresql_where=outcomes.c.whole, sqlite_where=outcomes.c.whole,
)  # fmt: skip
