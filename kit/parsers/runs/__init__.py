"""Readers of what other programs have timed: text in, runs out. A new one is a file here and a line below. Pure."""

from __future__ import annotations

import pkgutil

from kit.core.errors import UsageError
from kit.parsers.runs.timed_run import TimedRun

#: Each program and its reader, imported on use; the first that finds runs counts. A reader returns nothing for a text
#: of another program, and raises UsageError for its own that can't be read.
READERS = {
    "hyperfine --export-json": "kit.parsers.runs.hyperfine:read_hyperfine",
    "pytest-benchmark": "kit.parsers.runs.pytest_benchmark:read_pytest_benchmark",
    "pyperf": "kit.parsers.runs.pyperf:read_pyperf",
    "benchexec": "kit.parsers.runs.benchexec:read_benchexec",
    "runexec": "kit.parsers.runs.benchexec:read_runexec",
    "perfgate": "kit.parsers.runs.perfgate:read_perfgate",
    "google-benchmark": "kit.parsers.runs.google_benchmark:read_google_benchmark",
    "perf stat": "kit.parsers.runs.perf_stat:read_perf_stat",
    "time": "kit.parsers.runs.time_output:read_time_output",
}


def read_runs(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every run in the text, in order. ``where``: the file's name. Raises UsageError if there is none."""
    for maker in READERS.values():
        found: tuple[TimedRun, ...] = pkgutil.resolve_name(maker)(text, where)
        if found:
            return found
    raise UsageError(f"{where}: no timed run in it", f"give the output of one of: {', '.join(READERS)}")
