"""Sessions without their samples, found in the database: a store may hold hundreds of thousands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnClause,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    func,
    literal_column,
    select,
    true,
)

from kit.core.codec import UnreadableError, decode_json
from kit.store.schema import MACHINE_LENGTH, TITLE_LENGTH, sessions


@dataclass(frozen=True)
class Wanted:
    """What sessions must have in common; '' where any will do. ``machine``: the beginning of its name."""

    title: str = ""
    arm: str = ""
    machine: str = ""
    status: str = ""


def find_heads(connection: Connection, wanted: Wanted, most: int | None, skip: int) -> Sequence[RowMapping]:
    """Rows, newest first."""
    query = select(sessions).order_by(sessions.c.created.desc(), sessions.c.id.desc())
    return connection.execute(_only(query, wanted).limit(most).offset(skip)).mappings().all()


def count_heads(connection: Connection, wanted: Wanted) -> int:
    return int(connection.execute(_only(select(func.count()).select_from(sessions), wanted)).scalar_one())


def find_beginning(connection: Connection, beginning: str, most: int) -> list[str]:
    """Ids that begin so."""
    mine = sessions.c.id.startswith(beginning, autoescape=True)
    listed = connection.execute(select(sessions.c.id).where(mine).order_by(sessions.c.id.desc()).limit(most))
    return [name for name in listed.scalars() if name.startswith(beginning)]  # SQLite takes A for a


def known(connection: Connection, what: str) -> list[str]:
    """All values of a column of sessions; of ``arms`` each arm. In the order of their letters."""
    values = connection.execute(select(sessions.c[what]).distinct()).scalars()
    if what != "arms":
        return sorted(value for value in values if value)
    return sorted({arm for value in values for arm in _arms(value)})


def _arms(value: str) -> tuple[str, ...]:
    try:
        return decode_json(tuple[str, ...], value)
    except UnreadableError:
        return ()


def _only(query: Select[Any], wanted: Wanted) -> Select[Any]:
    conditions: list[ColumnElement[bool]] = [true()]
    if wanted.title:
        indexed: ColumnClause[str] = literal_column(
            f"substr(kit_sessions.title, 1, {TITLE_LENGTH})"
        )  # in the very words of its index
        conditions += [indexed == wanted.title[:TITLE_LENGTH], sessions.c.title == wanted.title]
    if wanted.arm:
        conditions.append(sessions.c.arms.contains(json.dumps(wanted.arm), autoescape=True))
    if wanted.machine:
        conditions.append(sessions.c.machine.startswith(wanted.machine[:MACHINE_LENGTH], autoescape=True))
    if wanted.status:
        conditions.append(sessions.c.status == wanted.status)
    return query.where(and_(*conditions))
