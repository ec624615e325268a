"""Views for other programs (Grafana, Apache Otava): their names and columns are kept, docs/store.md says what they are.

Columns are only ever added, at the end: PostgreSQL replaces a view no other way, and others' views stand on these. A
view that changes needs a new version of the schema, or stores that are there keep the old one. A migration that changes
the type of a column that a view shows must drop the view first; with the others' that stand on it that is its owner's
to do."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

#: Of each finished session what it found: arm against baseline, by the newest statistics it was worked out with.
_PENALTIES = """
SELECT s.id AS session, s.title AS scenario, s.machine, {created} AS created, s.kit_version,
    o.arm, o.baseline, o.point, o.phase, o.whole, o.metric, o.unit, o.n AS rounds,
    o.ratio, o.low, o.high, o.low_all, o.high_all, o.verdict, o.verdict_all,
    o.difference, o.difference_low, o.difference_high, o.mean, o.base_mean
FROM kit_outcomes o JOIN kit_sessions s ON s.id = o.session
WHERE o.arm <> '' AND s.status = 'done' AND NOT EXISTS (
    SELECT 1 FROM kit_outcomes n WHERE n.session = o.session AND n.version > o.version
)
"""

#: Each phase of each run. ``user`` alone would be the database's user.
_RUNS = """
SELECT s.id AS session, s.title AS scenario, s.machine, {started} AS started, s.status AS session_status,
    r.arm, r.point, r.block, r.kind, r.status, r.flags, p.name AS phase, p.real,
    p."user" AS user_time, p.sys AS sys_time, p.cgroup_user, p.cgroup_sys, p.elsewhere, p.flush,
    p.read_bytes, p.write_bytes, p.max_rss
FROM kit_samples r JOIN kit_sessions s ON s.id = r.session JOIN kit_phases p ON p.sample = r.id
"""

VIEWS: Mapping[str, str] = {"kit_penalties": _PENALTIES, "kit_runs": _RUNS}

#: Unix time as a time, in UTC.
_MOMENT = {"postgresql": "to_timestamp({})", "sqlite": "datetime({}, 'unixepoch')"}


def make_views(connection: Connection) -> None:
    """In the place of those of an older kit."""
    dialect = connection.dialect.name
    moments = {name: _MOMENT[dialect].format(column) for name, column in _MOMENTS.items()}
    for name, query in VIEWS.items():
        if dialect == "sqlite":
            connection.execute(text(f"DROP VIEW IF EXISTS {name}"))
        replace = "OR REPLACE " if dialect == "postgresql" else ""
        connection.execute(text(f"CREATE {replace}VIEW {name} AS {query.format(**moments)}"))


_MOMENTS = {"created": "s.created", "started": "r.started"}
