"""Flame graphs: stacks of an arm's traced runs merged into a tree, each frame with what it is on the baseline. Pure.

Gregg, The Flame Graph (CACM 59(6), 2016), and his differential flame graphs (2014): widths are the arm's CPU, colours
the difference. Here a difference comes with its interval, and only one that holds with all others at once is coloured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.analysis.traces.stacks import ProfiledRun, StackCost
from kit.model.profile import PARTS, Stack

#: Frames below this share of the whole are too narrow to be seen.
NARROW = 0.001
#: From this share on frames are compared: narrower ones are hard to select, and every comparison widens all others.
COLOURED = 0.005


@dataclass(frozen=True)
class Frame:
    """One frame of a flame graph."""

    path: Stack
    seconds: float  # mean CPU per run in it and all that it calls
    #: Against the baseline; None where the arm has none, or where the frame is too small for a comparison.
    cost: StackCost | None
    below: tuple[Frame, ...]  # what it calls, by name

    @property
    def name(self) -> str:
        return self.path[-1] if self.path else "all"

    @property
    def depth(self) -> int:
        """Return the depth of nested frames, this one included."""
        return 1 + max((frame.depth for frame in self.below), default=0)


def grow_flame(runs: Sequence[ProfiledRun], costs: Sequence[StackCost] = ()) -> Frame:
    """Return the root frame. ``costs``: this arm's by PATH."""
    seconds: dict[Stack, float] = defaultdict(float)
    for run in runs:
        for path, spent in run.frames.items():
            seconds[path] += spent / len(runs)
    whole = sum(spent for path, spent in seconds.items() if len(path) == 1)
    below: dict[Stack, list[Stack]] = defaultdict(list)
    for path, spent in seconds.items():
        if spent >= NARROW * whole:
            below[path[:-1]].append(path)
    cost_of = {cost.name: cost for cost in costs}
    return Frame((), whole, None, _frames((), below, seconds, cost_of))


def _frames(
    path: Stack,
    below: Mapping[Stack, Sequence[Stack]],
    seconds: Mapping[Stack, float],
    costs: Mapping[Stack, StackCost],
) -> tuple[Frame, ...]:
    return tuple(
        Frame(child, seconds[child], costs.get(child), _frames(child, below, seconds, costs))
        for child in sorted(below.get(path, ()), key=_order)
    )


def _order(path: Stack) -> tuple[int, str]:
    """Sort parts of the machine in their fixed order, all else by name, so that two arms' frames have one order."""
    name = path[-1]
    return (PARTS.index(name) if len(path) == 1 and name in PARTS else 0, name)
