"""Machines that ran the rounds of one session. Pure."""

from __future__ import annotations

from kit.core.listing import listed
from kit.model.fact import machines_by_worker, makers
from kit.model.session import Session

#: Workers that the name of their machine contains.
_NAMED = 3


def machines_of(session: Session) -> dict[str, tuple[str, ...]]:
    """Return the machines that made rounds, each with its workers; it is named after them. An interrupted session also
    names assigned machines without rounds."""
    maker_by_round, ids = makers(session.facts), machines_by_worker(session.facts)
    workers: dict[str, list[str]] = {}
    for name in sorted({maker_by_round[sample.round] for sample in session.samples if sample.round in maker_by_round}):
        workers.setdefault(ids.get(name, name), []).append(name)
    return {listed(names, _NAMED): tuple(names) for names in workers.values()}
