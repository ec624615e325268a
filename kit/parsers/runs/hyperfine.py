"""Reads the JSON of ``hyperfine --export-json``. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kit.core.codec import Amount, Code
from kit.parsers.runs.json_document import read_document
from kit.parsers.runs.timed_run import TimedRun, exit_error


@dataclass(frozen=True)
class _Result:
    """Of ``user`` and ``system`` only the means are known."""

    command: str
    mean: Amount
    user: Amount | None = None
    system: Amount | None = None
    times: tuple[Amount, ...] | None = None
    memory_usage_byte: tuple[Amount, ...] | None = None
    exit_codes: tuple[Code | None, ...] = ()


@dataclass(frozen=True)
class _Document:
    results: tuple[_Result, ...]


def read_hyperfine(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every run; a result without its runs as one, its mean."""
    document = read_document(_Document, text, ("results", "command"), where, "hyperfine")
    return tuple(run for result in document.results for run in _runs(result)) if document else ()


def _runs(result: _Result) -> Iterator[TimedRun]:
    times = result.times or (result.mean,)
    for number, real in enumerate(times):
        figures = {"real": real}
        if len(times) == 1 and result.user is not None and result.system is not None:
            figures |= {"user": result.user, "sys": result.system}
        if result.memory_usage_byte and len(result.memory_usage_byte) == len(times):
            figures["max_rss"] = result.memory_usage_byte[number]
        failed = exit_error(result.exit_codes[number]) if len(result.exit_codes) == len(times) else ""
        yield TimedRun(result.command, figures, failed)
