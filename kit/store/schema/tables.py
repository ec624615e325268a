"""Tables of the store; a line in kit.model.metric gives a metric its column."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
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
    func,
    true,
)

from kit.core.codec import storable
from kit.model.fact import MACHINE
from kit.model.sample import PHASE_FIELDS

#: Raised with each change of a table: the store of another kit is refused.
SCHEMA_VERSION = 22
#: Raised when the statistics change: outcomes stored with another number are recomputed.
OUTCOME_VERSION = 6


def machine_of(facts: Mapping[str, str]) -> str:
    """Return the machine as the column stores it."""
    return storable(MACHINE.text(facts))[:MACHINE_LENGTH]


class Words(TypeDecorator[str]):
    """Text of any length, in every database."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value and storable(value)


metadata = MetaData()

#: Most characters of a machine's name, and of a title in an index: PostgreSQL limits an index's rows.
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
    Column("plan", Words, nullable=False),  # JSON
    Column("imported", Boolean, nullable=False, server_default=true()),
    Column("machine", Words, nullable=False, server_default=""),  # of its facts
    Column("role", Words, nullable=False, server_default=""),  # who has stored it: PostgreSQL fills it in
)
Index("kit_sessions_of", func.substr(sessions.c.title, 1, TITLE_LENGTH), sessions.c.created)
#: Names as in views.
Index("kit_sessions_moment", func.to_timestamp(sessions.c.created)).ddl_if(dialect="postgresql")

samples = Table(
    "kit_samples",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("session", String(40), ForeignKey("kit_sessions.id", ondelete="CASCADE"), nullable=False),
    Column("arm", Words, nullable=False),
    Column("round", Integer, nullable=False),
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
    Column("rerun_of", Integer),
    Column("load", Words, nullable=False, server_default=""),
    Column("identity", Words),  # of a run that this kit has measured, not imported
    Column("stored_in", BigInteger),  # the transaction: PostgreSQL fills it in
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
    """Return the columns that identify one of a phase's rows."""
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

#: Outcomes of sessions, computed from their samples: a history reads these rows instead of all samples. Rows are added
#: and never changed, so that a writer needs no right to change. Other statistics have another version.
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
    Column("stored_in", BigInteger),  # as of a sample
    *(Column(name, Words, nullable=False) for name in COMPARISON_WORDS),
    *(Column(name, Integer, nullable=False) for name in COMPARISON_COUNTS),
    *(Column(name, Float) for name in COMPARISON_FIGURES),
)
