"""Penalties for github-action-benchmark's ``customSmallerIsBetter``, which draws a chart of each and comments when one
grows."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kit.analysis.stats.estimate import Interval
from kit.extra.exchange.analysis.tracked import smaller_is_better
from kit.extra.exchange.report.penalty import Penalty, newest
from kit.model.fact import built_commit
from kit.model.metric import METRICS
from kit.model.session import Session
from kit.parsers.figure import MORE
from kit.report.format import units
from kit.report.format.interval import times_interval
from kit.report.format.verdict import sentence

#: Digits of a value, which that tool prints as it is.
_DIGITS = 5


def render_benchmark_action(sessions: Sequence[Session]) -> str:
    """Return an entry for each penalty. Its value is a ratio, since that tool compares values by their quotient."""
    rows = [
        _row(penalty, newest_session.imported)
        for newest_session in newest(sessions)
        for penalty in newest_session.penalties()
    ]
    return json.dumps(rows, indent=1) + "\n"


def _row(penalty: Penalty, imported: bool) -> dict[str, str | float]:
    """Where more is better, the ratio is baseline / arm: smaller is better there too."""
    metric = penalty.comparison.metric
    ratio = smaller_is_better(penalty.comparison)
    range_ = {} if ratio.low is None or ratio.high is None else {"range": _range(ratio)}
    name = f"{penalty.series}, {metric}{' (baseline / arm)' if penalty.comparison.better == MORE else ''}"
    return {
        "name": name,
        "unit": "x",
        "value": float(f"{ratio.estimate:.{_DIGITS}g}"),
        **range_,
        "extra": _extra(penalty, imported),
    }


def _range(interval: Interval) -> str:
    """Return ``[1.031, 1.082], 95 %``."""
    return f"{times_interval(interval).partition(' ')[2]}, 95 %"


def _extra(penalty: Penalty, imported: bool) -> str:
    """Return what a chart shows on hovering, a line for each."""
    comparison, session = penalty.comparison, penalty.session
    lines = [
        f"session {session.id}, {comparison.n} round{'s' if comparison.n > 1 else ''}",
        sentence(comparison, session.request.margin) if comparison.metric in METRICS else comparison.verdict_all,
        f"{comparison.arm}: {units.amount(penalty.outcome.mean, comparison.unit)}",
        f"{comparison.baseline}: {units.amount(penalty.outcome.base_mean, comparison.unit)}",
        f"commit {built_commit(session.facts)}" if built_commit(session.facts) else "",
        f"guest: {session.guest}" if session.guest else "",
        "imported figures: machine, image and run order are unknown" if imported else "",
    ]
    return "\n".join(line for line in lines if line)
