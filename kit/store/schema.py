"""Tables of the store. A change raises SCHEMA_VERSION and adds a function to MIGRATIONS."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    text,
    true,
)

from kit.sample import PHASE_FIELDS

SCHEMA_VERSION = 7


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


def _own_pressure(connection: Connection) -> None:
    for name in ("psi_cpu_own", "psi_io_own", "psi_memory_own"):
        connection.execute(text(f"ALTER TABLE kit_phases ADD COLUMN {name} DOUBLE PRECISION"))


#: Version N → what brings a store of version N - 1 to it.
MIGRATIONS: dict[int, Callable[[Connection], None]] = {
    2: _sweeps_and_bursts,
    3: _reported_figures,
    4: _background_load,
    5: _outcomes,
    6: _imported_sessions,
    7: _own_pressure,
}

metadata = MetaData()

schema = Table("kit_schema", metadata, Column("version", Integer, primary_key=True))

sessions = Table(
    "kit_sessions",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("created", Float, nullable=False, index=True),
    Column("kit_version", String(40), nullable=False),
    Column("title", Text, nullable=False),
    Column("status", String(20), nullable=False),
    Column("request", Text, nullable=False),  # JSON
    Column("arms", Text, nullable=False),  # JSON
    Column("baselines", Text, nullable=False),  # JSON
    Column("seed", Integer, nullable=False),
    Column("facts", Text, nullable=False),  # JSON
    Column("not_run", Text, nullable=False),  # JSON
    Column("imported", Boolean, nullable=False, server_default=true()),
)

samples = Table(
    "kit_samples",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("session", String(40), ForeignKey("kit_sessions.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("arm", Text, nullable=False),
    Column("block", Integer, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("status", String(20), nullable=False),
    Column("started", Float, nullable=False),
    Column("calibration_before", Float),
    Column("calibration_after", Float),
    Column("memory_before", Float),
    Column("memory_after", Float),
    Column("engine_seconds", Float),
    Column("error", Text, nullable=False),
    Column("log", Text, nullable=False),
    Column("digests", Text, nullable=False),  # JSON
    Column("point", Text, nullable=False, server_default=""),
    Column("flags", Text, nullable=False, server_default=""),
    Column("repeats", Integer),
    Column("load", Text, nullable=False, server_default=""),
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
            String(60) if name in _TEXT_FIELDS else Integer() if name in _INTEGER_FIELDS else Float(),
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
    Column("name", String(100), nullable=False),
    Column("value", Float),
    Column("unit", String(40), nullable=False),
    Column("better", String(10), nullable=False),
)

#: What sessions found, worked out from their samples: a history reads these rows instead of all samples.
outcomes = Table(
    "kit_outcomes",
    metadata,
    Column("session", String(40), ForeignKey("kit_sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("version", Integer, nullable=False),  # OUTCOME_VERSION of the kit that worked them out
    Column("arm", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("point", Text, nullable=False),
    Column("whole", Boolean, nullable=False),
    Column("mean", Float),
    Column("base_mean", Float),
    Column("comparison", Text, nullable=False),  # JSON
    Column("digests", Text, nullable=False),  # JSON
    Index("kit_outcomes_of", "arm", "metric", "phase"),
)
