"""Makes a worker that somebody else has started (``dask worker --preload kit.fleet.preload``) one of the kit's."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from kit.core.errors import KitError
from kit.core.paths import find_paths
from kit.fleet.address import parse_address
from kit.fleet.carrier import Carrier, describe
from kit.fleet.examined import known_working
from kit.fleet.settings import CONNECTIONS
from kit.fleet.worker import PLUGIN, plugin
from kit.host.peers import use_peers

if TYPE_CHECKING:
    from distributed import Worker


async def dask_setup(worker: Worker) -> None:
    """Called by Dask before the worker speaks to its scheduler. ``KIT_HOME`` and ``KIT_FLEET_CLASS`` say what the
    options of ``kit fleet worker`` would. Ends the process where anybody could speak to the worker unproved: an
    Exception Dask would only log, and the worker would listen on."""
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
    await worker.plugin_add(plugin(Carrier(member, os.environ.get("KIT_HOME", ""))), name=PLUGIN)
