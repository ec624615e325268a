"""Reads pyperf's JSON: of ``pyperf command``, ``pyperf timeit`` and scripts with its Runner. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from kit.core.codec import Amount
from kit.core.errors import UsageError
from kit.extra.exchange.runs.json_document import Version, read_document
from kit.extra.exchange.runs.timed_run import TimedRun, distinct
from kit.parsers.tried import Tried

TRIED = (
    Tried(
        "pyperf", ("2.11.0",), refused="forms other than 1.0; values other than seconds",
        command="pyperf command -o build.json -- make", figures="each value, without warm-ups, also of .json.gz",
    ),
)  # fmt: skip
_VERSION = Version(("version",), r"1\.0")


@dataclass(frozen=True)
class _Metadata:
    """pyperf writes at the top what all benchmarks share."""

    name: str | None = None
    unit: str | None = None


@dataclass(frozen=True)
class _Run:
    """One process. Its warm-ups are another key; a process that only calibrates has no values."""

    values: tuple[Amount, ...] = ()


@dataclass(frozen=True)
class _Benchmark:
    runs: tuple[_Run, ...]
    metadata: _Metadata = field(default_factory=_Metadata)


@dataclass(frozen=True)
class _Document:
    benchmarks: tuple[_Benchmark, ...]
    metadata: _Metadata = field(default_factory=_Metadata)


def read_pyperf(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every value as a run: seconds of one loop. Raises UsageError for a benchmark of something else."""
    document = read_document(_Document, text, ("benchmarks", "runs"), where, "pyperf", _VERSION)
    if document is None:
        return ()
    benchmarks = document.benchmarks
    common = document.metadata
    titles = [benchmark.metadata.name or common.name or "" for benchmark in benchmarks]
    names = distinct([(title, title) for title in titles])
    for name, benchmark in zip(names, benchmarks, strict=True):
        unit = benchmark.metadata.unit or common.unit or "second"
        if unit != "second":
            raise UsageError(
                f"{where}: pyperf's benchmark '{name[:100]}' has values in {unit}, not seconds", "leave it out"
            )
    return tuple(
        TimedRun(name, {"real": value})
        for name, benchmark in zip(names, benchmarks, strict=True)
        for process in benchmark.runs
        for value in process.values
    )
