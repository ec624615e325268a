"""Where sessions and samples are kept: SQLite, or any database SQLAlchemy reaches."""

from kit.store.store import Store, open_store

__all__ = ["Store", "open_store"]
