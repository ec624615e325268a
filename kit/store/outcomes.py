"""Rows of what sessions found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from kit.analysis.compare import Comparison
from kit.analysis.outcome import OUTCOME_VERSION, Outcome
from kit.core.codec import UnreadableError, decode_json, encode_json
from kit.store.schema import outcomes, sessions


def write_outcomes(connection: Connection, session_id: str, found: Sequence[Outcome]) -> None:
    """In the place of those kept before. A session without any is kept as one row without a figure."""
    connection.execute(delete(outcomes).where(outcomes.c.session == session_id))
    rows: list[dict[str, Any]] = [
        {
            "position": position,
            "arm": item.comparison.arm,
            "phase": item.comparison.phase,
            "metric": item.comparison.metric,
            "point": item.comparison.point,
            "whole": item.whole,
            "mean": item.mean,
            "base_mean": item.base_mean,
            "comparison": encode_json(item.comparison),
            "digests": encode_json(dict(item.digests)),
        }
        for position, item in enumerate(found)
    ] or [dict.fromkeys(("arm", "phase", "metric", "point", "comparison", "digests"), "") | _NOTHING]
    common = {"session": session_id, "version": OUTCOME_VERSION}
    connection.execute(insert(outcomes), [{**common, **row} for row in rows])


_NOTHING = {"position": 0, "whole": False, "mean": None, "base_mean": None}


def kept_versions(connection: Connection) -> frozenset[str]:
    """The sessions whose outcomes are kept and of today's statistics."""
    query = select(outcomes.c.session).where(outcomes.c.version == OUTCOME_VERSION).distinct()
    return frozenset(connection.execute(query).scalars())


def read_outcomes(
    connection: Connection, title: str, arm: str, phase: str, metric: str
) -> list[tuple[str, Outcome | None]]:
    """Each with its session's id; None where what is kept can't be read."""
    mine = (outcomes.c.arm == arm) & (outcomes.c.metric == metric) & (outcomes.c.version == OUTCOME_VERSION)
    mine &= outcomes.c.phase == phase if phase else outcomes.c.whole
    query = select(outcomes).join(sessions).where(mine & (sessions.c.title == title))
    return [(row.session, _outcome(row)) for row in connection.execute(query)]


def read_results(connection: Connection, names: Sequence[str], metric: str) -> dict[str, list[Comparison]]:
    """What those sessions found of the whole run in one metric, as far as it is kept, by session."""
    mine = outcomes.c.session.in_(names) & outcomes.c.whole & (outcomes.c.metric == metric)
    query = select(outcomes).where(mine).order_by(outcomes.c.session, outcomes.c.position)
    found: dict[str, list[Comparison]] = {}
    for row in connection.execute(query):
        outcome = _outcome(row)
        if outcome is not None:
            found.setdefault(row.session, []).append(outcome.comparison)
    return found


def _outcome(row: Any) -> Outcome | None:
    try:
        comparison, digests = decode_json(Comparison, row.comparison), decode_json(dict[str, str], row.digests)
    except UnreadableError:
        return None
    return Outcome(comparison, row.mean, row.base_mean, row.whole, tuple(digests.items()))
