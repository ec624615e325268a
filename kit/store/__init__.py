"""Where sessions and samples are kept: SQLite, or a PostgreSQL server that many machines share.

Owns tables, views, roles and migrations, the outbox and its delivery, series. Imports analysis, model and core.
"""

from kit.store.heads import Wanted
from kit.store.outbox import Outbox
from kit.store.store import Store, open_store

__all__ = ["Outbox", "Store", "Wanted", "open_store"]
