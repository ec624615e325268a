"""Arms that take much more than the reference: space in use, bytes written to the device, or memory. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kit.analysis.runs.run_table import Runs
from kit.analysis.session.difference import Difference
from kit.analysis.session.ranking import Ranking, rank_by

#: The ratio to the reference from which an arm's space, writes or memory are notable.
NOTABLE = 1.5
#: The metrics, in the order in which they are named.
SPACE, WRITTEN, MEMORY = "space", "written", "peak_memory"


@dataclass(frozen=True)
class Footprint:
    """An arm whose ``metric`` is significantly above the reference's, NOTABLE times or more."""

    metric: str
    point: str
    against: Difference


def footprints(
    runs: Runs, arms: Sequence[str], rankings: Sequence[Ranking], baselines: Sequence[tuple[str, str]] = ()
) -> Iterator[Footprint]:
    """Yield the arms that have a notable footprint, the largest ratio of each metric first."""
    for ranking in rankings:
        for metric in (SPACE, WRITTEN, MEMORY):
            metric_ranking = rank_by(runs, arms, metric, ranking, baselines)
            for row in reversed(metric_ranking.rows if metric_ranking else ()):
                if row.against and row.against.ratio.significant and row.against.ratio.estimate >= NOTABLE:
                    yield Footprint(metric, ranking.point, row.against)
