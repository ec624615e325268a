"""What interleaving would hide of a workload's waits, and how long a time slice has to be for it not to matter. Pure.

A frozen process that waits for a timer, a network or a process that is not frozen with it finds its wait over when it
is thawed: that part of the wait is in nobody's time. A slice ends in such a wait with the probability ``share``, and
what is left of a wait at a random moment is E[w²] / 2 E[w] on average (renewal theory: Feller, An Introduction to
Probability Theory and Its Applications, vol. 2, XI.4). So of each slice at most share x left is hidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

#: Share of a run that may be hidden at most: a sixth of the margin within which arms are equivalent.
MOST_HIDDEN = 0.005
#: Seconds of a slice, at least and at most. Below the first, freezing takes a noticeable share of a slice; above the
#: second, the machine's speed changes within one round of slices.
SHORTEST, LONGEST = 0.1, 0.5
#: A run has this many slices where nothing requires longer ones, and this many at least.
SLICES, LEAST_SLICES = 50, 20
#: Seconds: shorter runs have too few slices for the machine's speed to average out.
SHORTEST_RUN = 0.5


@dataclass(frozen=True)
class Waiting:
    """How a workload waits for what would not be frozen with it. ``share`` of its time, and ``left``: seconds that
    such a wait still lasts on average, seen at a random moment of one."""

    share: float
    left: float

    def hidden(self, slice_seconds: float) -> float:
        """Return the share of a run's time that slices of this length hide at most."""
        return self.share * self.left / slice_seconds


def waiting(looks: Iterable[bool], seconds: float) -> Waiting:
    """Return how a workload waits, from looks at equal distances over ``seconds``: True where it waited. Waits between
    two looks that both saw none are not seen; a wait that one look saw counts as long as the distance of two."""
    seen = list(looks)
    if not seen:
        return Waiting(0.0, 0.0)
    spells = [sum(1 for _ in group) * seconds / len(seen) for waited, group in groupby(seen) if waited]
    total = sum(spells)
    return Waiting(sum(seen) / len(seen), sum(spell**2 for spell in spells) / (2 * total) if total else 0.0)


def slice_length(run_seconds: float, found: Waiting) -> float | None:
    """Return the length of a time slice in seconds for runs of this length; None where no length is short enough for
    the run and long enough for its waits."""
    longest = max(SHORTEST, run_seconds / LEAST_SLICES)
    wanted = min(max(SHORTEST, run_seconds / SLICES), LONGEST)
    needed = found.share * found.left / MOST_HIDDEN
    if run_seconds < SHORTEST_RUN or needed > longest:
        return None
    return round(max(wanted, needed), 3)
