"""Outside CPU: CPU time outside the build's cgroup, where it is enough to matter."""

from __future__ import annotations

from kit.analysis.analyse import Analysis, whole_real
from kit.analysis.compare import Comparison

#: The share of a build's real time from which on it is worth a line.
_NOTABLE = 0.05


def notable_outside_cpu(analysis: Analysis) -> list[Comparison]:
    """Return the comparisons of outside CPU that are significantly more than a twentieth of the build's time."""
    reals = {(item.arm, item.point, item.phase): item for item in whole_real(analysis.comparisons)}
    cpu = {(item.arm, item.point, item.phase): item for item in analysis.comparisons if item.metric == "elsewhere"}
    means = {key: analysis.runs.values((key[0], key[1]), key[2], "real").mean() for key in reals}
    return [item for key, item in cpu.items() if key in reals and (item.difference_low or 0) > _NOTABLE * means[key]]
