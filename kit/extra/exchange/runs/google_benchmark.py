"""Reads Google Benchmark's JSON (``--benchmark_out=FILE``). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kit.core.codec import Amount
from kit.extra.exchange.runs.json_document import Version, read_document
from kit.extra.exchange.runs.timed_run import TimedRun
from kit.parsers.tried import Tried

TRIED = (
    Tried(
        "Google Benchmark", forms=("1.9",), refused="forms other than 1", command="--benchmark_out=bench.json",
        figures="each repetition",
    ),
)  # fmt: skip
_VERSION = Version(("context", "json_schema_version"), "1")
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class _Benchmark:
    """A repetition, or an aggregate of them. ``real_time``: of one iteration; that of a complexity is missing."""

    name: str
    real_time: Amount | None = None
    time_unit: Literal["ns", "us", "ms", "s"] = "ns"
    run_type: str = "iteration"
    aggregate_name: str = ""
    run_name: str = ""
    error_occurred: bool = False
    error_message: str = ""


@dataclass(frozen=True)
class _Document:
    benchmarks: tuple[_Benchmark, ...]


def read_google_benchmark(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every repetition as a run: seconds of one iteration. With --benchmark_report_aggregates_only that is one
    run for each benchmark, their mean."""
    document = read_document(_Document, text, ("benchmarks", "real_time"), where, "Google Benchmark", _VERSION)
    if document is None:
        return ()
    single = [row for row in document.benchmarks if row.run_type == "iteration"]
    means = [row for row in document.benchmarks if row.aggregate_name == "mean"]
    return tuple(
        TimedRun(
            row.run_name or row.name,
            {"real": row.real_time * _UNITS[row.time_unit]},
            (row.error_message or "skipped with an error") if row.error_occurred else "",
            mean=not single,
        )
        for row in single or means
        if row.real_time is not None
    )
