"""Tables of the store. A change is a function in _MIGRATIONS; a column of a metric comes with its line in the table."""

from __future__ import annotations

from collections.abc import Callable

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
    text,
    true,
)

from kit.core.codec import storable
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
    outcomes.create(connection)


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


#: Version N → what brings a store of version N - 1 to it, beside the columns of metrics that it has first.
_MIGRATIONS: dict[int, Callable[[Connection], None]] = {
    2: _sweeps_and_bursts,
    3: _reported_figures,
    4: _background_load,
    5: _outcomes,
    6: _imported_sessions,
    8: _any_length,
    9: _tasks,
    11: _traced,
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
)

samples = Table(
    "kit_samples",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("session", String(40), ForeignKey("kit_sessions.id", ondelete="CASCADE"), nullable=False, index=True),
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

reported = Table(
    "kit_reported",
    metadata,
    Column("sample", Integer, ForeignKey("kit_samples.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),  # of the phase
    Column("number", Integer, primary_key=True),  # in the order in which the workload says it
    Column("name", Words, nullable=False),
    Column("value", Float),
    Column("unit", Words, nullable=False),
    Column("better", Words, nullable=False),
)

tasks = Table(
    "kit_tasks",
    metadata,
    Column("sample", Integer, ForeignKey("kit_samples.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),  # of the phase
    Column("number", Integer, primary_key=True),
    *(Column(name, Words, nullable=False) for name in ("kind", "recipe")),
    *(Column(name, Float, nullable=False) for name in ("started", "elapsed")),
    *(Column(name, Float) for name in ("user", "sys", "read_bytes", "write_bytes")),
)

calls = Table(
    "kit_calls",
    metadata,
    Column("sample", Integer, ForeignKey("kit_samples.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),  # of the phase
    Column("number", Integer, primary_key=True),
    *(Column(name, Words, nullable=False) for name in ("kind", "name")),
    Column("count", BigInteger, nullable=False),
    *(Column(name, Float, nullable=False) for name in ("seconds", "disk", "daemon", "slept", "ready")),
    *(Column(name, Words, nullable=False) for name in ("histogram", "errors")),  # JSON
    Column("bytes", Float, nullable=False),
)

profiles = Table(
    "kit_profiles",
    metadata,
    Column("sample", Integer, ForeignKey("kit_samples.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),  # of the phase
    Column("number", Integer, primary_key=True),
    Column("event", Words, nullable=False),
    *(Column(name, Integer, nullable=False) for name in ("samples", "lost")),
    Column("seconds", Float, nullable=False),
    Column("folded", Words, nullable=False),  # compressed
)

#: What sessions found, worked out from their samples: a history reads these rows instead of all samples.
outcomes = Table(
    "kit_outcomes",
    metadata,
    Column("session", String(40), ForeignKey("kit_sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("version", Integer, nullable=False),  # OUTCOME_VERSION of the kit that worked them out
    Column("arm", Words, nullable=False),
    Column("phase", Words, nullable=False),
    Column("metric", Words, nullable=False),
    Column("point", Words, nullable=False),
    Column("whole", Boolean, nullable=False),
    Column("mean", Float),
    Column("base_mean", Float),
    Column("comparison", Words, nullable=False),  # JSON
    Column("digests", Words, nullable=False),  # JSON
    Index("kit_outcomes_of", "arm", "metric", "phase"),
)
