"""Penalties in Bencher Metric Format: a benchmark for each arm, a measure for each metric."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from kit.extra.exchange.report.penalty import Penalty, newest
from kit.model.session import Session

#: Most characters of a measure's name and bytes of a benchmark's, as Bencher checks them.
_LONGEST_MEASURE, _LONGEST_BENCHMARK = 64, 1024


def render_bencher(sessions: Sequence[Session]) -> str:
    """Return the penalties as ratios, ``lower_value`` and ``upper_value`` being the 95 % interval."""
    benchmarks: dict[str, dict[str, dict[str, float]]] = {}
    for newest_session in newest(sessions):
        for penalty in newest_session.penalties():
            name = penalty.series.encode()[:_LONGEST_BENCHMARK].decode(errors="ignore")
            benchmarks.setdefault(name, {})[_measure(penalty.comparison.metric)] = _value(penalty)
    return json.dumps(benchmarks, indent=1) + "\n"


def _measure(metric: str) -> str:
    """Return the slug of the measure, which Bencher makes if it is new: ``penalty-cpu-total``."""
    return f"penalty-{re.sub('[^a-z0-9]+', '-', metric.lower())}"[:_LONGEST_MEASURE].strip("-")


def _value(penalty: Penalty) -> dict[str, float]:
    if penalty.low is None or penalty.high is None:
        return {"value": penalty.ratio}
    return {"value": penalty.ratio, "lower_value": penalty.low, "upper_value": penalty.high}
