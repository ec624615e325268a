"""The tasks of a build over time, as pybootchart shows them, but of all arms on one axis: a typical run of each."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kit.analysis.runs.arm_runs import ArmRuns, TypicalRun
from kit.parsers.task import BuildTask
from kit.report.format import units
from kit.report.plot.picture import CHARACTER, Picture, label_width, line, rect, shortened, text
from kit.report.plot.scale import Scale, linear_ticks

_LANE, _BAR, _GAP, _TOP, _PLOT, _RIGHT, _LEGEND = 15.0, 13.0, 16.0, 34.0, 700.0, 80.0, 26.0
#: The largest kinds have a style each, and all others the last.
_LOOKS = 6
#: Most tasks drawn of one arm: the longest. All others are a fraction of a pixel wide.
MOST = 600


@dataclass(frozen=True)
class _Row:
    run: TypicalRun
    lanes: tuple[int, ...]  # of each task; those of one lane do not overlap

    @property
    def height(self) -> float:
        return (max(self.lanes, default=0) + 1) * _LANE + _GAP

    @property
    def end(self) -> float:
        return max(self.run.seconds, *(task.started + task.elapsed for task in self.run.tasks))


def plot_tasks(arms: Sequence[ArmRuns], phase: str, name: str = "tasks") -> Picture | None:
    """Return the typical run of each arm; None without known tasks."""
    rows = [_Row(run, tuple(_pack(run.tasks))) for arm_runs in arms if (run := arm_runs.typical_run(phase))]
    if not rows:
        return None
    labels = [f"{row.run.arm}{units.at(row.run.point)}" for row in rows]
    label_space = label_width(labels)
    high = max(row.end for row in rows)
    low = min(0.0, *(task.started for row in rows for task in row.run.tasks))
    scale = Scale(low, high, label_space, label_space + _PLOT)
    bottom = _TOP + sum(row.height for row in rows)
    parts = []
    for tick in linear_ticks(low, high, 10):
        parts.append(line(scale.at(tick), _TOP - 4, scale.at(tick), bottom, "grid"))
        parts.append(text(scale.at(tick), _TOP - 12, f"{tick:g} s", "middle", "quiet"))
    looks = _find_looks(rows)
    top = _TOP
    for row, label in zip(rows, labels, strict=True):
        parts += _draw(row, label, top, scale, looks)
        top += row.height
    parts += _legend(looks, 8, bottom + _LEGEND)
    title = f"Tasks of {phase}, from its start; a typical run of each arm"
    most = max(len(row.run.tasks) for row in rows)
    title += f" (the {MOST} longest of {most})" if most > MOST else ""
    description = "; ".join(_words(row, label) for row, label in zip(rows, labels, strict=True))
    return Picture(name, title, description, label_space + _PLOT + _RIGHT, bottom + _LEGEND + 14, "".join(parts))


def _pack(tasks: Sequence[BuildTask]) -> Iterator[int]:
    """Put each task in the first free lane."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for task in tasks:
        while busy and busy[0][0] <= task.started + 1e-9:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (task.started + task.elapsed, lane))
        yield lane


def _find_looks(rows: Sequence[_Row]) -> dict[str, str]:
    """Return styles by kind, the largest first; the last is for all others."""
    size: Counter[str] = Counter()
    for row in rows:
        for task in row.run.tasks:
            size[task.kind] += task.elapsed  # type: ignore[assignment]
    return {kind: f"step{i}" for i, (kind, _) in enumerate(size.most_common(_LOOKS - 1))}


def _look(kind: str, looks: dict[str, str]) -> str:
    return looks.get(kind, f"step{_LOOKS - 1}")


def _draw(row: _Row, label: str, top: float, scale: Scale, looks: dict[str, str]) -> list[str]:
    middle, bottom = top + row.height / 2, top + row.height - _GAP / 2
    parts = [text(scale.left - 10, middle, shortened(label, scale.left - 10), "end")]
    longest = sorted(zip(row.run.tasks, row.lanes, strict=True), key=lambda placed: -placed[0].elapsed)[:MOST]
    for task, lane in longest:
        x, width = scale.at(task.started), scale.at(task.started + task.elapsed) - scale.at(task.started)
        y = top + lane * _LANE
        cpu = "" if task.cpu is None else f", CPU {units.seconds(task.cpu)}"
        hint = f"{label}: {task.recipe} {task.kind}, {units.seconds(task.elapsed)} from {task.started:.2f} s on{cpu}"
        parts.append(rect(x, y, width - 0.7 if width > 2 else max(width, 0.4), _BAR, _look(task.kind, looks), hint))
        words = f"{task.recipe} {task.kind}"
        if width > len(words) * CHARACTER:
            parts.append(text(x + 3, y + _BAR - 3, words, kind="inside"))
    parts.append(line(scale.at(row.run.seconds), top - 2, scale.at(row.run.seconds), bottom, "mean"))
    parts.append(text(scale.right + 8, middle, units.seconds(row.run.seconds)))
    parts.append(line(scale.left, bottom, scale.right, bottom, "axis"))
    return parts


def _legend(looks: dict[str, str], x: float, y: float) -> list[str]:
    parts = []
    for kind, look in {**looks, "others": f"step{_LOOKS - 1}"}.items():
        parts.append(rect(x, y - 10, 12, 12, look))
        parts.append(text(x + 17, y, kind, kind="quiet"))
        x += 17 + len(kind) * CHARACTER + 18
    return parts


def _words(row: _Row, label: str) -> str:
    longest = max(row.run.tasks, key=lambda task: task.elapsed)
    return (
        f"{label}: {len(row.run.tasks)} tasks in {units.seconds(row.run.seconds)}, up to {max(row.lanes) + 1} at once; "
        f"the longest is {longest.recipe} {longest.kind} with {units.seconds(longest.elapsed)}"
    )
