"""Settings of dask.distributed and limits of a process, for every side."""

from __future__ import annotations

import logging
import resource

from kit.core.errors import not_installed
from kit.core.paths import find_paths
from kit.core.private import make_private

#: Seconds of silence after which a connection counts as broken, and a worker as lost. Dask's 30 s for connections would
#: end all running shares at each restart of a switch.
SILENCE = 300
#: Dask's own pages show who runs what: serve them to this machine alone.
PAGES = "127.0.0.1:0"
#: Settings that each process of a fleet needs from its first connection on.
CONNECTIONS = {"distributed.comm.timeouts.tcp": f"{SILENCE}s", "distributed.scheduler.worker-ttl": f"{SILENCE}s"}
#: A worker must not disturb measurements beside it. So it has no profiler with a hundred samples a second, no loop that
#: checks fifty times a second that it is awake, and no memory monitor. Machines do not steal each other's tasks: a
#: share belongs to a machine.
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
    """Apply the settings, before any object of dask is made. Raises MachineError if dask is not installed."""
    try:
        import dask
        import distributed  # noqa: F401
    except ImportError:
        raise not_installed("a fleet needs", "distributed", "fleet") from None
    scratch = find_paths().cache / "fleet"
    make_private(scratch)
    dask.config.set({**_SETTINGS, **CONNECTIONS, "temporary-directory": str(scratch)})
    for name in ("distributed", *logging.root.manager.loggerDict):  # dask sets own levels for some loggers below it
        if name.partition(".")[0] in ("distributed", "tornado", "bokeh"):
            logging.getLogger(name).setLevel(logging.CRITICAL)


def allow_many_files() -> None:
    """Raise the limit of open files to its maximum, for this process and its children. Each connection needs one, and
    the default of a login or service is too small for a thousand machines."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
