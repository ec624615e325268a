"""Views for other programs (Grafana, Apache Otava): their names and columns are kept.

A view that changes needs a new version of the schema: views are made with the store alone."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

from kit.store.schema.tables import OUTCOME_VERSION

#: Outcomes of each finished session: arm against baseline, by the newest statistics that this schema knows. A writer
#: can store outcomes of any version.
_PENALTIES = f"""
SELECT s.id AS session, s.title AS scenario, s.machine, {{created}} AS created, s.kit_version,
    o.arm, o.baseline, o.point, o.phase, o.whole, o.metric, o.unit, o.n AS rounds,
    o.ratio, o.low, o.high, o.low_all, o.high_all, o.verdict, o.verdict_all,
    o.difference, o.difference_low, o.difference_high, o.mean, o.base_mean, s.role
FROM kit_outcomes o JOIN kit_sessions s ON s.id = o.session
WHERE o.arm <> '' AND s.status = 'done' AND o.version <= {OUTCOME_VERSION} AND NOT EXISTS (
    SELECT 1 FROM kit_outcomes n
    WHERE n.session = o.session AND n.version > o.version AND n.version <= {OUTCOME_VERSION}
)
"""

#: Each phase of each run. ``user`` alone would be the database's user.
_RUNS = """
SELECT s.id AS session, s.title AS scenario, s.machine, {started} AS started, s.status AS session_status,
    r.arm, r.point, r.round, r.kind, r.status, r.flags, p.name AS phase, p.real,
    p."user" AS user_time, p.sys AS sys_time, p.cgroup_user, p.cgroup_sys, p.outside, p.flush,
    p.read_bytes, p.write_bytes, p.dirtied_bytes, p.space, p.inodes, p.max_rss,
    p.arm_memory, p.daemon_memory, s.role
FROM kit_samples r JOIN kit_sessions s ON s.id = r.session JOIN kit_phases p ON p.sample = r.id
"""

VIEWS: Mapping[str, str] = {"kit_penalties": _PENALTIES, "kit_runs": _RUNS}

#: What the columns of each view are, by their names.
COLUMNS: Mapping[str, Mapping[tuple[str, ...], str]] = {
    "kit_penalties": {
        ("session", "scenario", "machine", "created", "kit_version"): "which session, when and where",
        ("arm", "baseline"): "what is compared",
        ("point",): "values of a sweep",
        ("phase", "whole"): "the phase, and whether it is the whole run",
        ("metric", "unit"): "a metric, or a figure of the workload's",
        (
            "ratio",
            "low",
            "high",
            "rounds",
        ): "arm / baseline with its individual 95 % interval, as `kit history` prints; NULL if none exists",
        ("low_all", "high_all"): "of the simultaneous interval, as the answer of `kit compare` prints",
        ("verdict", "verdict_all"): "`more`, `less`, `not significant`, `no interval`, by each of the two",
        ("difference", "difference_low", "difference_high"): "arm − baseline, in `unit`",
        ("mean", "base_mean"): "of each, in `unit`",
        ("role",): "the PostgreSQL role that stored the session",
    },
    "kit_runs": {
        ("session", "scenario", "machine", "started", "session_status"): "which session, when and where",
        (
            "arm",
            "point",
            "round",
            "kind",
            "status",
            "flags",
            "phase",
        ): "which run; `flags`: what disturbed it",
        ("real", "user_time", "sys_time", "cgroup_user", "cgroup_sys", "outside", "flush"): "metrics, in seconds",
        ("read_bytes", "write_bytes", "dirtied_bytes", "space", "max_rss", "arm_memory", "daemon_memory"): "in bytes",
        ("inodes",): "their number",
        ("role",): "the PostgreSQL role that stored the session",
    },
}

#: Unix time as a timestamp, in UTC.
_MOMENT = {"postgresql": "to_timestamp({})", "sqlite": "datetime({}, 'unixepoch')"}


def make_views(connection: Connection) -> None:
    dialect = connection.dialect.name
    moments = {name: _MOMENT[dialect].format(column) for name, column in _MOMENTS.items()}
    for name, query in VIEWS.items():
        connection.execute(text(f"DROP VIEW IF EXISTS {name}"))  # of a store left half made
        connection.execute(text(f"CREATE VIEW {name} AS {query.format(**moments)}"))


_MOMENTS = {"created": "s.created", "started": "r.started"}
