"""A session as pytest-benchmark's JSON, for its own compare command and what else reads that."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from statistics import fmean, median, quantiles, stdev
from typing import Any

import numpy as np

from kit.analysis.analyse import Analysis, analyse
from kit.model.fact import CPU, KERNEL, MACHINE
from kit.model.session import Session
from kit.report.shown import shown

#: Of pytest-benchmark whose format this is.
_VERSION = "5.1.0"


def render_pytest_benchmark(sessions: Sequence[Session]) -> str:
    """One benchmark for each session's arm, point and phase: real time, seconds, each run as a round of one iteration.

    ``extra_info`` holds what the format has no place for: baseline, ratio and interval.
    """
    sessions = [shown(session) for session in sessions]
    first = sessions[0]
    document = {
        "machine_info": _machine(first),
        "commit_info": {"id": "unknown", "time": None, "dirty": False, "branch": "unknown"},
        "benchmarks": [row for session in sessions for row in _benchmarks(session, analyse(session))],
        "datetime": _moment(first.created),
        "version": _VERSION,
    }
    return json.dumps(document, indent=1) + "\n"


def _moment(seconds: float) -> str:
    """ISO 8601, UTC; the epoch where a session from elsewhere claims a time that no calendar has."""
    known = seconds if 0 <= seconds < 253402300800 else 0
    return datetime.datetime.fromtimestamp(known, datetime.UTC).isoformat()


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
    runs = analysis.runs
    found = {(item.arm, item.point, item.phase): item for item in analysis.comparisons if item.metric == "real"}
    for point in runs.points:
        for arm in session.arms:
            for phase in runs.phases([(arm, point)]) if runs.has((arm, point)) else ():
                values = runs.values((arm, point), phase, "real")
                known = [float(value) for value in values[np.isfinite(values)]]
                if not known:
                    continue
                item = found.get((arm, point, phase))
                at = f",{point}" if point else ""
                name = f"{session.title}[{arm}{at}] {phase}"
                yield {
                    "group": f"{session.title} {phase}{at}",
                    "name": name,
                    "fullname": f"kit::{name}",
                    "params": None,
                    "param": None,
                    "extra_info": {
                        "session": session.id,
                        "guest": session.guest,
                        "baseline": item.baseline if item else None,
                        "ratio": item.ratio if item else None,
                        "ratio_low": item.low if item else None,
                        "ratio_high": item.high if item else None,
                    },
                    "options": {
                        "disable_gc": False, "timer": "monotonic", "min_rounds": len(known), "max_time": 0.0,
                        "min_time": 0.0, "warmup": False,
                    },
                    "stats": _stats(known),
                }  # fmt: skip


def _stats(values: Sequence[float]) -> dict[str, Any]:
    q1, _, q3 = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    mean, spread, middle = fmean(values), stdev(values) if len(values) > 1 else 0.0, median(values)
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    mild = sum(abs(value - mean) > spread for value in values)
    far = sum(not low <= value <= high for value in values)
    return {
        "min": min(values),
        "max": max(values),
        "mean": mean,
        "stddev": spread,
        "rounds": len(values),
        "median": middle,
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": far,
        "stddev_outliers": mild,
        "outliers": f"{mild};{far}",
        "ld15iqr": min((value for value in values if value >= low), default=min(values)),
        "hd15iqr": max((value for value in values if value <= high), default=max(values)),
        "ops": 1 / mean if mean else 0.0,
        "total": sum(values),
        "data": list(values),
        "iterations": 1,
    }
