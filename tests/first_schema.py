"""A store as the kit's first version made it."""

from sqlalchemy import create_engine, text


def make_first_schema(url: str) -> None:
    """Of a store as today's kit makes it."""
    with create_engine(url).begin() as connection:
        for column in ("point", "flags", "repeats", "load", "memory_before", "memory_after"):
            connection.execute(text(f"ALTER TABLE kit_samples DROP COLUMN {column}"))
        connection.execute(text("DROP TABLE kit_reported"))
        connection.execute(text("DROP TABLE kit_outcomes"))
        connection.execute(text("DROP TABLE kit_tasks"))
        connection.execute(text("DROP TABLE kit_calls"))
        connection.execute(text("DROP TABLE kit_profiles"))
        connection.execute(text("ALTER TABLE kit_sessions DROP COLUMN imported"))
        for resource in ("cpu", "io", "memory"):
            connection.execute(text(f"ALTER TABLE kit_phases DROP COLUMN psi_{resource}_own"))
        connection.execute(text("UPDATE kit_schema SET version = 1"))
