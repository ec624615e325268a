"""Reads the JSON of ``pytest --benchmark-json`` and ``--benchmark-autosave``, and of ``kit export``. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.codec import Amount
from kit.extra.exchange.runs.json_document import Version, read_document
from kit.extra.exchange.runs.timed_run import TimedRun, distinct
from kit.parsers.tried import Tried

TRIED = (
    Tried(
        "pytest-benchmark", ("5.3.1",), refused="before 3 and from 6 on", command="pytest --benchmark-json bench.json",
        figures="each round; of --benchmark-autosave, which has none, their mean as one run",
    ),
)  # fmt: skip
_VERSION = Version(("version",), r"[345]\.[0-9a-z.]{1,20}")


@dataclass(frozen=True)
class _Stats:
    mean: Amount
    data: tuple[Amount, ...] | None = None


@dataclass(frozen=True)
class _Benchmark:
    """``fullname``: with the module and the class of its test."""

    name: str
    stats: _Stats
    fullname: str = ""


@dataclass(frozen=True)
class _Document:
    benchmarks: tuple[_Benchmark, ...]


def read_pytest_benchmark(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every round as a run: seconds of one iteration. A benchmark without its rounds (--benchmark-autosave) is
    one run, their mean."""
    document = read_document(_Document, text, ("benchmarks", "stats"), where, "pytest-benchmark", _VERSION)
    if document is None:
        return ()
    benchmarks = document.benchmarks
    names = distinct([(benchmark.name, benchmark.fullname or benchmark.name) for benchmark in benchmarks])
    return tuple(
        TimedRun(name, {"real": real}, mean=not benchmark.stats.data)
        for name, benchmark in zip(names, benchmarks, strict=True)
        for real in benchmark.stats.data or (benchmark.stats.mean,)
    )
