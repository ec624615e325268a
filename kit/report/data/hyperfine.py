"""A session as hyperfine's JSON, for its scripts and for programs that read this format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kit.analysis.runs.arm_runs import ArmRuns
from kit.model.fact import built_commit
from kit.model.session import Session
from kit.model.sweep import parse_point
from kit.report.data.penalty import Newest, Penalty, newest


def render_hyperfine(sessions: Sequence[Session]) -> str:
    """Return a result for each arm and point: real time of the whole run. ``kit`` holds what the format has no
    place for: baseline, ratio and interval. ``user`` and ``system`` are null where nobody measured them."""
    items = newest(sessions)
    several = len(items) > 1
    return json.dumps({"results": [row for item in items for row in _results(item, several)]}, indent=1) + "\n"


def _results(item: Newest, several: bool) -> Iterator[dict[str, Any]]:
    found = {
        (penalty.comparison.arm, penalty.comparison.point): penalty
        for penalty in item.penalties()
        if penalty.outcome.whole and penalty.comparison.metric == "real"
    }
    for runs in item.analysis.arms:
        made = _result(runs)
        if made:
            name = f"{runs.arm},{runs.point}" if runs.point else runs.arm
            machine = f" on {item.machine}" if item.machine else ""
            yield {
                "command": f"{item.session.title}{machine}: {name}" if several else name,
                **made,
                **({"parameters": parse_point(runs.point)} if runs.point else {}),
                "kit": _about(item, found.get((runs.arm, runs.point))),
            }


def _result(runs: ArmRuns) -> dict[str, Any]:
    """Return the figures that hyperfine writes; nothing if no run has a time."""
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


def _about(item: Newest, penalty: Penalty | None) -> dict[str, Any]:
    session = item.session
    about = {"scenario": session.title, "session": session.id, "commit": built_commit(session.facts) or None}
    known = {
        "baseline": penalty.comparison.baseline if penalty else None,
        "ratio": penalty.ratio if penalty else None,
        "ratio_low": penalty.low if penalty else None,
        "ratio_high": penalty.high if penalty else None,
    }
    return {**about, "guest": session.guest or None, "imported": item.imported, **known}
