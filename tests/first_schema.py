"""A store as earlier versions of the kit made it."""

from sqlalchemy import Connection, create_engine, text

#: As the kit's version 0.6 made it, the last whose outcomes held a comparison as JSON.
_OUTCOMES = """CREATE TABLE kit_outcomes (session VARCHAR(40) NOT NULL REFERENCES kit_sessions (id) ON DELETE CASCADE,
    position INTEGER NOT NULL, version INTEGER NOT NULL, arm TEXT NOT NULL, phase TEXT NOT NULL, metric TEXT NOT NULL,
    point TEXT NOT NULL, whole BOOLEAN NOT NULL, mean FLOAT, base_mean FLOAT, comparison TEXT NOT NULL,
    digests TEXT NOT NULL, PRIMARY KEY (session, position))"""


def make_ninth_schema(connection: Connection) -> None:
    """Of a store as today's kit makes it."""
    for view in ("kit_penalties", "kit_runs"):
        connection.execute(text(f"DROP VIEW IF EXISTS {view}"))
    for index in ("kit_sessions_of", "kit_sessions_machine", "kit_sessions_moment", "kit_samples_once"):
        connection.execute(text(f"DROP INDEX IF EXISTS {index}"))
    connection.execute(text("CREATE INDEX ix_kit_samples_session ON kit_samples (session)"))
    connection.execute(text("ALTER TABLE kit_sessions DROP COLUMN machine"))
    connection.execute(text("ALTER TABLE kit_samples DROP COLUMN identity"))
    for table in ("kit_calls", "kit_profiles", "kit_outcomes"):
        connection.execute(text(f"DROP TABLE {table}"))
    connection.execute(text(_OUTCOMES))
    for column in ("turns", "frozen_write_bytes", "others_write_bytes"):
        connection.execute(text(f"ALTER TABLE kit_phases DROP COLUMN {column}"))
    connection.execute(text("UPDATE kit_schema SET version = 9"))


def make_first_schema(url: str) -> None:
    """The same, of the first version."""
    with create_engine(url).begin() as connection:
        make_ninth_schema(connection)
        for column in ("point", "flags", "repeats", "load", "memory_before", "memory_after"):
            connection.execute(text(f"ALTER TABLE kit_samples DROP COLUMN {column}"))
        connection.execute(text("DROP TABLE kit_reported"))
        connection.execute(text("DROP TABLE kit_outcomes"))
        connection.execute(text("DROP TABLE kit_tasks"))
        connection.execute(text("ALTER TABLE kit_sessions DROP COLUMN imported"))
        for resource in ("cpu", "io", "memory"):
            connection.execute(text(f"ALTER TABLE kit_phases DROP COLUMN psi_{resource}_own"))
        connection.execute(text("UPDATE kit_schema SET version = 1"))
