"""The option ``+nosync``: programs of the arm do not wait until data are on the disk. libeatmydata makes fsync,
fdatasync, sync, msync and O_SYNC do nothing in each program that the dynamic linker loads (LD_PRELOAD, ld.so(8))."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from kit.core.errors import RunError
from kit.engines.engine import Blocker
from kit.engines.sandbox import Sandbox
from kit.image.layout import CONTROL

_NAME = "libeatmydata.so"
#: Directories of libraries: Debian's of this machine's architecture, and those of other distributions.
_DIRECTORIES = ("lib/*-linux-gnu", "lib64", "lib", "lib/libeatmydata", "lib64/libeatmydata")


@lru_cache
def find_library() -> Path | None:
    """Return the machine's library; None if it is not installed."""
    found = (path for place in _DIRECTORIES for path in sorted(Path("/usr").glob(f"{place}/{_NAME}")))
    return next(found, None)


def nosync_blocker() -> Blocker | None:
    """Return why no arm can have the option here; None if one can."""
    return None if find_library() else Blocker(f"{_NAME} is not installed", "run apt-get install libeatmydata1")


def without_syncs(sandbox: Sandbox) -> Sandbox:
    """Return the sandbox with the library in its environment. Raises RunError if the image's programs do not load it:
    the arm would sync as any other, under a name that says otherwise."""
    made = replace(sandbox, env={**sandbox.env, "LD_PRELOAD": f"{CONTROL}/{_NAME}"})
    with tempfile.TemporaryFile() as output:
        timing = made.run(["cat", "/proc/self/maps"], ".", output)
        output.seek(0)
        if not timing.ok or _NAME.encode() not in output.read():
            raise RunError(f"programs of the image do not load {_NAME}", "use an image with the GNU C library")
    return made
