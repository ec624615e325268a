"""A session as pytest-benchmark's JSON, for its compare command and other programs that read this format."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from typing import Any

from kit.analysis.session.analyse import Analysis, analyse
from kit.analysis.stats.description import Description
from kit.model.fact import CPU, KERNEL, MACHINE, built_commit
from kit.model.session import Session
from kit.report.format.sanitize import shown

#: The version of pytest-benchmark that has this format.
_VERSION = "5.1.0"


def render_pytest_benchmark(sessions: Sequence[Session]) -> str:
    """One benchmark for each session's arm, point and phase: real time, seconds, each run as a round of one iteration.

    ``extra_info`` holds what the format has no place for: baseline, ratio and interval.
    """
    sessions = [shown(session) for session in sessions]
    first = sessions[0]
    document = {
        "machine_info": _machine(first),
        "commit_info": {
            "id": built_commit(first.facts) or "unknown",
            "time": None,
            "dirty": False,
            "branch": "unknown",
        },
        "benchmarks": [row for session in sessions for row in _benchmarks(session, analyse(session))],
        "datetime": _moment(first.created),
        "version": _VERSION,
    }
    return json.dumps(document, indent=1) + "\n"


def _moment(seconds: float) -> str:
    """Return ISO 8601, UTC; the epoch if an imported session's time is outside the calendar."""
    timestamp = seconds if 0 <= seconds < 253402300800 else 0
    return datetime.datetime.fromtimestamp(timestamp, datetime.UTC).isoformat()


def _machine(session: Session) -> dict[str, Any]:
    facts = session.facts
    return {
        "node": MACHINE.text(facts, "unknown"),
        "processor": "",
        "machine": "",
        "python_compiler": "",
        "python_implementation": "",
        "python_implementation_version": "",
        "python_version": "",
        "python_build": ["", ""],
        "release": KERNEL.text(facts),
        "system": "Linux",
        "cpu": {"brand_raw": CPU.text(facts)},
        "kit": dict(facts),
    }


def _benchmarks(session: Session, analysis: Analysis) -> Iterator[dict[str, Any]]:
    comparisons = {
        (comparison.arm, comparison.point, comparison.phase): comparison
        for comparison in analysis.comparisons
        if comparison.metric == "real"
    }
    for runs in analysis.arms:
        for phase in runs.phases:
            described = runs.describe(phase)
            if described is None:
                continue
            comparison = comparisons.get((runs.arm, runs.point, phase))
            at = f",{runs.point}" if runs.point else ""
            name = f"{session.title}[{runs.arm}{at}] {phase}"
            yield {
                "group": f"{session.title} {phase}{at}",
                "name": name,
                "fullname": f"kit::{name}",
                "params": None,
                "param": None,
                "extra_info": {
                    "session": session.id,
                    "commit": built_commit(session.facts) or None,
                    "guest": session.guest,
                    "baseline": comparison.baseline if comparison else None,
                    "ratio": comparison.ratio if comparison else None,
                    "ratio_low": comparison.low if comparison else None,
                    "ratio_high": comparison.high if comparison else None,
                },
                "options": {
                    "disable_gc": False, "timer": "monotonic", "min_rounds": len(described.values), "max_time": 0.0,
                    "min_time": 0.0, "warmup": False,
                },
                "stats": _stats(described),
            }  # fmt: skip


def _stats(description: Description) -> dict[str, Any]:
    return {
        "min": description.least,
        "max": description.most,
        "mean": description.mean,
        "stddev": description.deviation,
        "rounds": len(description.values),
        "median": description.median,
        "iqr": description.interquartile_range,
        "q1": description.quartiles[0],
        "q3": description.quartiles[1],
        "iqr_outliers": description.outside_near,
        "stddev_outliers": description.outside_deviation,
        "outliers": f"{description.outside_deviation};{description.outside_near}",
        "ld15iqr": description.near[0],
        "hd15iqr": description.near[1],
        "ops": description.per_second,
        "total": description.total,
        "data": list(description.values),
        "iterations": 1,
    }
