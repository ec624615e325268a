"""Adds the kit's part to a user's own worker: ``dask worker --preload kit.extra.fleet.service.preload``."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from kit.core.errors import KitError
from kit.core.paths import find_paths
from kit.extra.fleet.address import parse_address
from kit.extra.fleet.service.capabilities import known_working
from kit.extra.fleet.service.share_runner import ShareRunner, describe
from kit.extra.fleet.service.worker import PLUGIN, plugin
from kit.extra.fleet.settings import CONNECTIONS
from kit.host.remote_cache import use_peers

if TYPE_CHECKING:
    from distributed import Worker


async def dask_setup(worker: Worker) -> None:
    """Set up the worker; Dask calls it before the worker connects to its scheduler. ``KIT_HOME`` and
    ``KIT_FLEET_CLASS`` replace the options of ``kit fleet worker``. Ends the process if anybody could connect without
    proof of identity: Dask would only log an Exception, and the worker would listen on."""
    import dask

    dask.config.set(CONNECTIONS)
    try:
        for url in (worker.listen_address, worker.scheduler.address):  # its address may name one of many it listens on
            if not url.startswith("tls://"):
                parse_address(url, "")
        name = str(worker.name)
        member = describe(platform.node() if "://" in name else name, os.environ.get("KIT_FLEET_CLASS", ""), False,
                          known_working(find_paths()))  # fmt: skip
        use_peers(())
    except KitError as error:
        raise SystemExit(f"kit: {error}") from None
    await worker.plugin_add(plugin(ShareRunner(member, os.environ.get("KIT_HOME", ""))), name=PLUGIN)
