"""What dask.distributed is told, on every side."""

from __future__ import annotations

import logging

from kit.core.errors import not_installed
from kit.core.paths import find_paths
from kit.core.private import make_private

#: Seconds of silence after which a connection counts as broken, and a worker as lost. Dask's 30 s for the first would
#: end what runs on all machines each time a switch starts anew.
SILENCE = 300
#: What each process of a fleet must have from its first connection on.
CONNECTIONS = {"distributed.comm.timeouts.tcp": f"{SILENCE}s", "distributed.scheduler.worker-ttl": f"{SILENCE}s"}
#: A worker is not to disturb what is measured beside it: no profiler that looks at it a hundred times a second, no
#: loop that wakes it fifty times a second to see that it is awake, nothing that judges its memory. No machine takes
#: what another was given: a share is of a machine.
_SETTINGS = {
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.admin.tick.interval": "2s",
    "distributed.admin.tick.cycle": "10s",
    "distributed.diagnostics.nvml": False,
}


def prepare() -> None:
    """Before anything of dask is made. Raises MachineError where it is not installed."""
    try:
        import dask
        import distributed  # noqa: F401
    except ImportError:
        raise not_installed("a fleet needs", "distributed", "fleet") from None
    scratch = find_paths().cache / "fleet"
    make_private(scratch)
    dask.config.set({**_SETTINGS, **CONNECTIONS, "temporary-directory": str(scratch)})
    for name in ("distributed", *logging.root.manager.loggerDict):  # dask gives some below it levels of their own
        if name.partition(".")[0] in ("distributed", "tornado", "bokeh"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
