"""Which arms a session of open end runs on with: those of comparisons that are open. Pure.

The others lose nothing: a comparison has the rounds with both its arms, and its interval stays as it was at its last
look (kit.analysis.stats.sequential)."""

from __future__ import annotations

from collections.abc import Sequence

from kit.analysis.runs.compare import is_control
from kit.analysis.session.ranking import Ranking
from kit.analysis.stats.estimate import NOT_SIGNIFICANT


def racing(rankings: Sequence[Ranking], baselines: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Return the undecided arms and what they are compared with; what the reference costs over no container, which the
    answer begins with; and controls, while they are too noisy for any verdict of equivalence. None where each arm is
    decided. ``baselines``: the session's."""
    arms: set[str] = set()
    for ranking in rankings:
        if not ranking.undecided:
            continue
        arms |= {ranking.reference, *(row.arm for row in ranking.undecided)}
        for cost in ranking.costs:
            is_open = cost.verdict_all == NOT_SIGNIFICANT and not cost.equivalent(ranking.margin)
            if cost.arm == ranking.reference and is_open:
                arms.add(cost.baseline)
        if any(row.against and row.against.ratio.visible > 1 + ranking.margin for row in ranking.undecided):
            arms |= {name for pair in baselines if is_control(pair[0]) for name in pair}
    return frozenset(arms)
