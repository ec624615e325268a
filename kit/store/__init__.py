"""Where sessions and samples are kept: SQLite, or any database SQLAlchemy reaches."""

from kit.store.outbox import Outbox
from kit.store.store import Store, open_store

__all__ = ["Outbox", "Store", "open_store"]
