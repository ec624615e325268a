"""Figures that a workload reports of itself, beside the times the kit takes: bandwidth, latency, fragments. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.codec import Finite

LESS, MORE = "less", "more"


@dataclass(frozen=True)
class Reported:
    """One figure of one phase."""

    name: str
    value: Finite | None  # None: the workload was too fast to tell, which is not zero
    unit: str
    better: str = LESS  # ``less`` (a latency) or ``more`` (a bandwidth)
