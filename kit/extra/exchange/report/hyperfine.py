"""A session as hyperfine's JSON, for its scripts and for programs that read this format.

Both schemas are in use: the scripts of hyperfine 2 read schema 2 alone, those of 1.x and Bencher's adapter the older
one alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kit import __version__
from kit.analysis.runs.arm_runs import ArmRuns
from kit.analysis.stats.description import Description
from kit.extra.exchange.report.penalty import Newest, Penalty, newest
from kit.model.fact import built_commit
from kit.model.session import Session
from kit.model.sweep import parse_point

#: Metrics of schema 2, in its order: what each is the sum of, its unit.
_METRICS = {
    "time_wall_clock": (("real",), "second"),
    "time_cpu": (("user", "sys"), "second"),
    "time_user": (("user",), "second"),
    "time_system": (("sys",), "second"),
    "memory_peak_resident": (("max_rss",), "byte"),
}


def render_hyperfine(sessions: Sequence[Session]) -> str:
    """Return a result for each arm and point: every run with its real time, CPU time and memory, each left out where
    nobody measured it. ``kit`` holds what the format has no place for: baseline, ratio and interval."""
    document = {
        "schema_version": 2,
        "metadata": {"kit_version": __version__},
        "primary_metric": "time_wall_clock",
        "results": _results(sessions, _result, lambda value: {"value": value}),
    }
    return json.dumps(document, indent=1) + "\n"


def render_hyperfine_1(sessions: Sequence[Session]) -> str:
    """Return the same as hyperfine 1.x writes it: real time of each run, and means of ``user`` and ``system``, which
    are null where nobody measured them."""
    return json.dumps({"results": _results(sessions, _result_1, str)}, indent=1) + "\n"


def _results(
    sessions: Sequence[Session], result: Callable[[ArmRuns], dict[str, Any]], parameter: Callable[[str], object]
) -> list[dict[str, Any]]:
    newest_sessions = newest(sessions)
    several = len(newest_sessions) > 1
    return [row for newest_session in newest_sessions for row in _rows(newest_session, several, result, parameter)]


def _rows(
    newest_session: Newest,
    several: bool,
    result: Callable[[ArmRuns], dict[str, Any]],
    parameter: Callable[[str], object],
) -> Iterator[dict[str, Any]]:
    penalties = {
        (penalty.comparison.arm, penalty.comparison.point): penalty
        for penalty in newest_session.penalties()
        if penalty.outcome.whole and penalty.comparison.metric == "real"
    }
    for runs in newest_session.analysis.arms:
        figures = result(runs)
        if figures:
            name = f"{runs.arm},{runs.point}" if runs.point else runs.arm
            machine = f" on {newest_session.machine}" if newest_session.machine else ""
            parameters = {key: parameter(value) for key, value in parse_point(runs.point).items()} if runs.point else {}
            yield {
                "command": f"{newest_session.session.title}{machine}: {name}" if several else name,
                **figures,
                **({"parameters": parameters} if parameters else {}),
                "kit": _about(newest_session, penalties.get((runs.arm, runs.point))),
            }


def _result(runs: ArmRuns) -> dict[str, Any]:
    """Return every run, and a summary of what all have; nothing if no run has a time."""
    sums = {name: parts for name, (parts, _) in _METRICS.items()}
    measured = [values for values in runs.sums(runs.whole, sums) if "time_wall_clock" in values]
    if not measured:
        return {}
    summaries = {name: runs.describe(runs.whole, parts) for name, (parts, _) in _METRICS.items()}
    return {
        "measurements": [
            {**{name: {"value": value, "unit": _METRICS[name][1]} for name, value in values.items()}, "exit_code": 0}
            for values in measured
        ],
        "summary": {
            name: _summary(described, _METRICS[name][1])
            for name, described in summaries.items()
            if described and len(described.values) == len(measured)
        },
    }


def _summary(described: Description, unit: str) -> Mapping[str, Any]:
    count = len(described.values)
    return {
        "unit": unit,
        "count": count,
        "mean": described.mean,
        "stddev": described.deviation if count > 1 else None,
        "median": described.median,
        "min": described.least,
        "max": described.most,
    }


def _result_1(runs: ArmRuns) -> dict[str, Any]:
    """Return the figures that hyperfine 1.x writes; nothing if no run has a time."""
    described = runs.describe(runs.whole)
    if described is None:
        return {}
    times = list(described.values)
    return {
        "mean": described.mean,
        "stddev": described.deviation if len(times) > 1 else None,
        "median": described.median,
        "user": runs.mean(runs.whole, "user"),
        "system": runs.mean(runs.whole, "sys"),
        "min": described.least,
        "max": described.most,
        "times": times,
        "exit_codes": [0] * len(times),
    }


def _about(newest_session: Newest, penalty: Penalty | None) -> dict[str, Any]:
    session = newest_session.session
    about = {"scenario": session.title, "session": session.id, "commit": built_commit(session.facts) or None}
    against_baseline = {
        "baseline": penalty.comparison.baseline if penalty else None,
        "ratio": penalty.ratio if penalty else None,
        "ratio_low": penalty.low if penalty else None,
        "ratio_high": penalty.high if penalty else None,
    }
    return {**about, "guest": session.guest or None, "imported": newest_session.imported, **against_baseline}
