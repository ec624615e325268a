"""Rows of sessions' outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Connection, Row, Text, any_, delete, literal, select

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.outcome import Outcome
from kit.core.codec import UnreadableError, decode, decode_json, encode_json
from kit.store.schema.rows import insert_new
from kit.store.schema.tables import (
    COMPARISON_COUNTS,
    COMPARISON_FIGURES,
    COMPARISON_WORDS,
    OUTCOME_VERSION,
    outcomes,
)

_FIELDS = (*COMPARISON_WORDS, *COMPARISON_COUNTS, *COMPARISON_FIGURES)
#: Marks a session without outcomes: a row without a figure.
_NOTHING = {
    **dict.fromkeys(COMPARISON_WORDS, ""), **dict.fromkeys(COMPARISON_COUNTS, 0), "digests": "{}", "whole": False,
}  # fmt: skip
#: Sessions in one query: databases limit its parameters.
_BATCH = 1000


def write_outcomes(connection: Connection, session_id: str, new_outcomes: Sequence[Outcome]) -> None:
    """Write outcomes, unless those of this version exist: a finished session does not change."""
    key = {"session": session_id, "version": OUTCOME_VERSION}
    of_session = (outcomes.c.session == session_id) & (outcomes.c.version == OUTCOME_VERSION)
    if connection.execute(select(outcomes.c.position).where(of_session).limit(1)).first():
        return
    rows: list[dict[str, Any]] = []
    written: set[tuple[str, str]] = set()
    for outcome in new_outcomes:
        place = outcome.comparison.arm, outcome.comparison.point
        digests = "" if place in written else encode_json(dict(outcome.digests))
        written.add(place)
        what = {"whole": outcome.whole, "mean": outcome.mean, "base_mean": outcome.base_mean, "digests": digests}
        rows.append({name: getattr(outcome.comparison, name) for name in _FIELDS} | what)
    rows = rows or [_NOTHING]
    numbered = [{**key, **row, "position": position} for position, row in enumerate(rows)]
    connection.execute(insert_new(connection, outcomes, ("session", "version", "position")), numbered)


def drop_other_outcomes(connection: Connection) -> None:
    """Delete outcomes of other statistics than this schema's; they are recomputed on use."""
    connection.execute(delete(outcomes).where(outcomes.c.version != OUTCOME_VERSION))


def kept_of(connection: Connection, names: Sequence[str]) -> frozenset[str]:
    """Return those of these sessions whose outcomes are stored, by the current statistics."""
    query = select(outcomes.c.session).where((outcomes.c.version == OUTCOME_VERSION) & (outcomes.c.position == 0))
    results = (connection.execute(query.where(batch)).scalars() for batch in _of_batches(connection, names))
    return frozenset(name for listed in results for name in listed)


def read_outcomes(
    connection: Connection, names: Sequence[str], arms: Sequence[str], phase: str, metric: str
) -> list[tuple[str, Outcome | None]]:
    """Return the outcomes of these sessions, each with its session's id; None if a row can't be read."""
    of_arms = outcomes.c.arm.in_(arms) & (outcomes.c.version == OUTCOME_VERSION)
    matching = (outcomes.c.metric == metric) & (outcomes.c.phase == phase if phase else outcomes.c.whole)
    query = select(outcomes, matching.label("matching")).where(of_arms & (matching | (outcomes.c.digests != "")))
    digests: dict[tuple[str, str, str], str] = {}
    rows = []
    for batch in _of_batches(connection, names):
        for row in connection.execute(query.where(batch)):
            if row.digests:
                digests[row.session, row.arm, row.point] = row.digests
            if row.matching:
                rows.append(row)
    return [(row.session, _outcome(row, digests.get((row.session, row.arm, row.point), ""))) for row in rows]


def read_results(connection: Connection, names: Sequence[str], metric: str) -> dict[str, list[Comparison]]:
    """Return the stored outcomes of the whole run in one metric, by session."""
    condition = outcomes.c.session.in_(names) & outcomes.c.whole & (outcomes.c.metric == metric)
    condition &= outcomes.c.version == OUTCOME_VERSION
    query = select(outcomes).where(condition).order_by(outcomes.c.session, outcomes.c.position)
    by_session: dict[str, list[Comparison]] = {}
    for row in connection.execute(query):
        with suppress(UnreadableError):
            by_session.setdefault(row.session, []).append(_comparison(row))
    return by_session


def _of_batches(connection: Connection, names: Sequence[str]) -> Iterator[ColumnElement[bool]]:
    """Yield conditions for the rows of the first batch of sessions, of the next…"""
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        if connection.dialect.name == "sqlite":
            yield outcomes.c.session.in_(batch)
        else:  # one parameter, where a thousand take longer to be written into the query than it runs
            yield outcomes.c.session == any_(literal(batch, ARRAY(Text)))


def _outcome(row: Row[Any], digests: str) -> Outcome | None:
    try:
        by_name = decode_json(dict[str, str], digests)
        return Outcome(_comparison(row), row.mean, row.base_mean, row.whole, tuple(by_name.items()))
    except UnreadableError:
        return None


def _comparison(row: Row[Any]) -> Comparison:
    """Raises UnreadableError."""
    values = row._mapping
    return decode(Comparison, {name: values[name] for name in _FIELDS})
