"""Additions that a shared store allows to a writer: to sessions that its own role has begun, and in the current
transaction.

PostgreSQL's column grants (``roles``) prevent a writer from setting the columns ``role`` and ``stored_in``: the server
fills them in. Its triggers refuse the rest. The store's owner is exempt."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

#: Columns that the server fills in: the role that stored a row, and its transaction.
FILLED_IN: Mapping[str, Mapping[str, str]] = {
    "kit_sessions": {"role": "CURRENT_USER"},
    "kit_samples": {"stored_in": "txid_current()"},
    "kit_outcomes": {"stored_in": "txid_current()"},
}

#: A writer's own search path must not lead to foreign tables: the path is set, temporary tables last.
_FUNCTION = """
CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
    theirs text;
BEGIN
    IF pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RETURN NEW;
    END IF;
    {body}
    RETURN NEW;
END $$
"""

_OWN = """
    SELECT s.role INTO theirs FROM kit_sessions s
    WHERE s.id = {session} AND s.role <> current_user;
    IF FOUND THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('the session %s is of the role %s, not of %s', {session}, theirs, current_user),
            HINT = 'use the role that began the session, or the owner of the store';
    END IF;
"""

_SAMPLE = """
    IF NOT EXISTS (SELECT FROM kit_samples s WHERE s.id = NEW.sample AND s.stored_in = txid_current()) THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('the run %s is stored: nothing is added to it', NEW.sample),
            HINT = 'store a run with all its figures in one transaction';
    END IF;
"""

_OUTCOMES = """
    IF EXISTS (SELECT FROM kit_outcomes o WHERE o.session = NEW.session AND o.version = NEW.version
               AND o.stored_in IS DISTINCT FROM txid_current()) THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('the outcomes of the session %s are stored: nothing is added to them', NEW.session),
            HINT = 'store what a session found in one transaction';
    END IF;
"""

#: Functions by name: their checks, and the tables and events that trigger them.
RULES = {
    "kit_own_session": (_OWN.format(session="OLD.id"), {"kit_sessions": "UPDATE"}),
    "kit_own_run": (_OWN.format(session="NEW.session"), {"kit_samples": "INSERT OR UPDATE"}),
    "kit_own_outcome": (_OWN.format(session="NEW.session") + _OUTCOMES, {"kit_outcomes": "INSERT"}),
    "kit_new_run": (
        _SAMPLE, dict.fromkeys(("kit_phases", "kit_reported", "kit_tasks", "kit_calls", "kit_profiles"), "INSERT"),
    ),
}  # fmt: skip


def make_rules(connection: Connection) -> None:
    """Make the rules. SQLite has no roles: the mode of its file decides who writes."""
    if connection.dialect.name != "postgresql":
        return
    schema = connection.execute(text("SELECT quote_ident(current_schema())")).scalar_one()
    for table, columns in FILLED_IN.items():
        for column, value in columns.items():
            connection.exec_driver_sql(f"ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT {value}")
    for name, (body, tables) in RULES.items():
        connection.execute(text(_FUNCTION.format(name=name, schema=schema, body=body)))
        for table, events in tables.items():
            connection.exec_driver_sql(
                f"CREATE TRIGGER {name} BEFORE {events} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()"
            )
