"""Storage of sessions and samples: SQLite, or a PostgreSQL server that many machines share.

Owns tables, the outbox and its delivery, outcomes of sessions. Imports analysis, model and core."""

from kit.store.outbox.outbox import Outbox
from kit.store.session_query import SessionFilter
from kit.store.store import Store, check_store, open_store

__all__ = ["Outbox", "SessionFilter", "Store", "check_store", "open_store"]
