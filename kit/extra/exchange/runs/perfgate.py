"""Reads perfgate's receipts of runs: ``perfgate run`` and ``perfgate paired``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kit.core.codec import Amount, Code
from kit.extra.exchange.runs.json_document import Version, read_document
from kit.extra.exchange.runs.timed_run import TimedRun, exit_error
from kit.parsers.tried import Tried

TRIED = (
    Tried(
        "perfgate", ("0.18.1",), refused="receipts other than v1", command="perfgate run …, perfgate paired …",
        figures="each run but warm-ups; of pairs two arms, baseline and current; not user and sys: it has their sum",
    ),
)  # fmt: skip
_VERSION = Version(("schema",), r"perfgate\.(run|paired)\.v1")


@dataclass(frozen=True)
class _Half:
    """A run. Its CPU time is not read: it is user and system in one."""

    wall_ms: Amount
    exit_code: Code
    timed_out: bool = False
    max_rss_kb: Amount | None = None
    page_faults: Amount | None = None  # major ones


@dataclass(frozen=True)
class _Sample(_Half):
    warmup: bool = False


@dataclass(frozen=True)
class _Pair:
    baseline: _Half
    current: _Half
    warmup: bool = False


@dataclass(frozen=True)
class _Bench:
    name: str


@dataclass(frozen=True)
class _Receipt:
    bench: _Bench
    samples: tuple[_Sample, ...]


@dataclass(frozen=True)
class _PairedReceipt:
    samples: tuple[_Pair, ...]


def read_perfgate(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every run but the warm-ups. Those of a pair are named baseline and current, in turn."""
    paired = read_document(_PairedReceipt, text, ("samples", "pair_index"), where, "perfgate", _VERSION)
    if paired:
        return tuple(
            replace(_run(name, half), paired=True)
            for pair in paired.samples
            if not pair.warmup
            for name, half in (("baseline", pair.baseline), ("current", pair.current))
        )
    receipt = read_document(_Receipt, text, ("samples", "wall_ms"), where, "perfgate", _VERSION)
    return tuple(_run(receipt.bench.name, run) for run in receipt.samples if not run.warmup) if receipt else ()


def _run(name: str, run: _Half) -> TimedRun:
    figures: Mapping[str, float | None] = {
        "real": run.wall_ms / 1e3,
        "max_rss": None if run.max_rss_kb is None else run.max_rss_kb * 1024,
        "major_faults": run.page_faults,
    }
    error = "stopped at its time limit" if run.timed_out else exit_error(run.exit_code)
    return TimedRun(name, {key: value for key, value in figures.items() if value is not None}, error)
