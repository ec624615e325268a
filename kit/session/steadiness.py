"""Whether this machine's speed is steady: a test of less than a minute before a session that could run by turns."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from kit.analysis.speed import Unsteadiness, unsteadiness
from kit.host.command import run
from kit.host.interrupt import interruptible

#: Seconds. Two runs of ten seconds, at several points in time.
SECONDS = 45.0
#: Interpreters that have nothing to do: they are loaded, fault their pages in and end, as most processes of a build do.
#: Arithmetic tells less of how fast these are (docs/method.md).
_WORK = ("sh", "-c", 'for i in 1 2 3 4; do "$0" -I -S -c ""; done', sys.executable)


def watch_speed(cores: int, slices: float) -> Unsteadiness:
    """Start processes on all CPUs at once, as a build does."""
    end = time.monotonic() + SECONDS
    with ThreadPoolExecutor(cores) as pool:
        watching = [pool.submit(_starts, end) for _ in range(cores)]
        with interruptible():
            done = [item.result() for item in watching]
    return unsteadiness(done, slices)


def _starts(end: float) -> list[tuple[float, float]]:
    done = []
    while (began := time.monotonic()) < end:
        run(_WORK)
        done.append((began, time.monotonic() - began))
    return done
