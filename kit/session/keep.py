"""The last step of a session: its final state is in the store, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kit.model.event import StatusChanged
from kit.model.session import DONE, FAILED, INTERRUPTED, Session

if TYPE_CHECKING:
    from kit.store import Outbox, Store


def keep(session: Session, outbox: Outbox, store: Store) -> None:
    """Record the session's final state, and the outcomes of a complete one, which lists and histories show."""
    outbox.take(StatusChanged(session.status))
    if session.status == DONE:
        store.keep_outcomes(session)


@contextmanager
def broken_off_recorded(outbox: Outbox) -> Iterator[None]:
    """Record that the session was interrupted or has failed, if the block raises."""
    try:
        yield
    except KeyboardInterrupt:
        outbox.take(StatusChanged(INTERRUPTED))
        raise
    except BaseException:
        outbox.take(StatusChanged(FAILED))
        raise
