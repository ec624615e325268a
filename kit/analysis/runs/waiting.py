"""Waits of a workload that interleaving would hide, and the length of time slices that keeps this share small. Pure.

A frozen process may wait for a timer, a network or a process that is not frozen. The wait may end before the thaw, and
no run's time contains that part. A slice ends in such a wait with the probability ``share``. The rest of a wait at a
random moment is E[w²] / 2 E[w] on average (renewal theory: Feller, An Introduction to Probability Theory and Its
Applications, vol. 2, XI.4). So each slice hides share x left at most."""

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
    """Waits of a workload for something that is not frozen with it."""

    share: float  # of the workload's time
    remaining: float  # mean seconds from a random moment in such a wait to its end

    def hidden(self, slice_seconds: float) -> float:
        """Return the share of a run's time that slices of this length hide at most."""
        return self.share * self.remaining / slice_seconds


def waiting(looks: Iterable[bool], seconds: float) -> Waiting:
    """Return how a workload waits, from equally spaced samples over ``seconds``: True if it waited. A wait between two
    samples remains unseen; a wait in one sample counts as long as the sampling interval."""
    samples = list(looks)
    if not samples:
        return Waiting(0.0, 0.0)
    spells = [sum(1 for _ in group) * seconds / len(samples) for waited, group in groupby(samples) if waited]
    total = sum(spells)
    return Waiting(sum(samples) / len(samples), sum(spell**2 for spell in spells) / (2 * total) if total else 0.0)


def longest_slice(run_seconds: float) -> float:
    """Return the longest time slice in seconds for runs of this length."""
    return max(SHORTEST, run_seconds / LEAST_SLICES)


def slice_length(*runs: tuple[float, Waiting]) -> float | None:
    """Return the length of a time slice in seconds; None where no length is short enough for every run and long enough
    for its waits. ``runs``: the seconds of each kind of run, and how it waits."""
    shortest = min(seconds for seconds, _ in runs)
    preferred = min(max(SHORTEST, shortest / SLICES), LONGEST)
    needed = max(wait.share * wait.remaining for _, wait in runs) / MOST_HIDDEN
    if shortest < SHORTEST_RUN or needed > longest_slice(shortest):
        return None
    return round(max(preferred, needed), 3)
