"""Reads the JSON of ``pytest --benchmark-json``, and of ``kit export --format pytest-benchmark``. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.codec import Amount
from kit.parsers.runs.json_document import read_document
from kit.parsers.runs.timed_run import TimedRun


@dataclass(frozen=True)
class _Stats:
    mean: Amount
    data: tuple[Amount, ...] | None = None


@dataclass(frozen=True)
class _Benchmark:
    name: str
    stats: _Stats


@dataclass(frozen=True)
class _Document:
    benchmarks: tuple[_Benchmark, ...]


def read_pytest_benchmark(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every round as a run: seconds of one iteration. A benchmark without its rounds is one run, their mean."""
    document = read_document(_Document, text, ("benchmarks", "stats"), where, "pytest-benchmark")
    if document is None:
        return ()
    return tuple(
        TimedRun(item.name, {"real": real})
        for item in document.benchmarks
        for real in item.stats.data or (item.stats.mean,)
    )
