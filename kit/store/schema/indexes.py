"""Indexes with options of one database. For these SQLAlchemy imports the dialects with all their drivers: a new store
needs them, the other commands do not wait."""

from __future__ import annotations

from functools import cache

from sqlalchemy import Index

from kit.store.schema.tables import outcomes, sessions


@cache
def add_indexes() -> None:
    """Add the indexes to the tables, which are then created with them."""
    machine, created = sessions.c.machine, sessions.c.created
    Index("kit_sessions_machine", machine, created, postgresql_ops={"machine": "text_pattern_ops"})
    # For the most frequent queries: one row for each session instead of all of them.
    key = outcomes.c.session, outcomes.c.arm, outcomes.c.metric
    Index("kit_outcomes_whole", *key, postgresql_where=outcomes.c.whole, sqlite_where=outcomes.c.whole)
