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
    rows = [_row(penalty, item.imported) for item in newest(sessions) for penalty in item.penalties()]
    return json.dumps(rows, indent=1) + "\n"


def _row(item: Penalty, imported: bool) -> dict[str, str | float]:
    """Where more is better, the ratio is baseline / arm: smaller is better there too."""
    metric = item.comparison.metric
    found = smaller_is_better(item.comparison)
    range_ = {} if found.low is None or found.high is None else {"range": _range(found)}
    name = f"{item.series}, {metric}{' (baseline / arm)' if item.comparison.better == MORE else ''}"
    return {
        "name": name,
        "unit": "x",
        "value": float(f"{found.estimate:.{_DIGITS}g}"),
        **range_,
        "extra": _extra(item, imported),
    }


def _range(item: Interval) -> str:
    """Return ``[1.031, 1.082], 95 %``."""
    return f"{times_interval(item).partition(' ')[2]}, 95 %"


def _extra(item: Penalty, imported: bool) -> str:
    """Return what a chart shows on hovering, a line for each."""
    found, session = item.comparison, item.session
    lines = [
        f"session {session.id}, {found.n} round{'s' if found.n > 1 else ''}",
        sentence(found, session.request.margin) if found.metric in METRICS else found.verdict_all,
        f"{found.arm}: {units.amount(item.outcome.mean, found.unit)}",
        f"{found.baseline}: {units.amount(item.outcome.base_mean, found.unit)}",
        f"commit {built_commit(session.facts)}" if built_commit(session.facts) else "",
        f"guest: {session.guest}" if session.guest else "",
        "imported figures: machine, image and run order are unknown" if imported else "",
    ]
    return "\n".join(line for line in lines if line)
