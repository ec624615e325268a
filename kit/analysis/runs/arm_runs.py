"""Times of an arm's runs, for display: means, extremes, each run, a typical run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kit.analysis.runs.run_table import Key, Runs
from kit.analysis.stats.description import Description, describe
from kit.analysis.stats.estimators import Floats
from kit.parsers.figure import Reported
from kit.parsers.task import BuildTask

#: A process left the tree if CPU of cgroup and tree differ by more than both of these: a share, seconds.
_RELATIVE, _ABSOLUTE = 0.02, 0.02


@dataclass(frozen=True)
class TimeRange:
    """Range of real time, in seconds, over the runs that have one."""

    mean: float
    least: float
    most: float


@dataclass(frozen=True)
class RunTime:
    """One run."""

    place: int  # among the arm's runs, from 0
    round: int
    seconds: float  # real time of the whole run
    flags: str  # why it counts as disturbed; '' if it does not


@dataclass(frozen=True)
class FrozenWrites:
    """Data of an arm that was written while the arm was frozen: bytes per run, and the share of all written data."""

    bytes: float
    share: float


@dataclass(frozen=True)
class TypicalRun:
    """The run whose real time is nearest the mean: seconds of its phase, and its tasks in the order of their starts."""

    arm: str
    point: str
    seconds: float
    tasks: tuple[BuildTask, ...]


@dataclass(frozen=True)
class ArmRuns:
    """The runs of one arm at one point that count. ``runs``: those of all arms."""

    runs: Runs = field(repr=False)
    arm: str
    point: str

    @property
    def _key(self) -> Key:
        return self.arm, self.point

    @property
    def count(self) -> int:
        return self.runs.rounds(self._key).size

    @property
    def phases(self) -> tuple[str, ...]:
        """Names in order, ``total`` last where a run has more than one."""
        return self.runs.phases([self._key])

    @property
    def whole(self) -> str:
        """Return the name of the whole run's figures."""
        return self.phases[-1]

    def mean(self, phase: str, *metrics: str) -> float | None:
        """Return the mean of the sum of these metrics; None where no run has measured them all."""
        values = _known(self._sum(phase, metrics))
        return float(values.mean()) if values.size else None

    def sums(self, phase: str, sums: Mapping[str, Sequence[str]]) -> Iterator[dict[str, float]]:
        """Yield, of each run, the sums of metrics whose parts it has measured. ``sums``: the metrics of each."""
        columns = {name: self._sum(phase, metrics) for name, metrics in sums.items()}
        for place in range(self.count):
            yield {name: float(values[place]) for name, values in columns.items() if np.isfinite(values[place])}

    def measured(self, phase: str, metric: str) -> int:
        """Return the number of runs that have measured it."""
        return _known(self._values(phase, metric)).size

    def reports(self, phase: str, figure: str) -> bool:
        """Return whether the workload reports this figure of a phase."""
        return figure in self.runs.reported([self._key], phase)

    def describe(self, phase: str, metrics: Sequence[str] = ("real",)) -> Description | None:
        """Return the distribution of the sum of these metrics; None where no run has measured them."""
        values = _known(self._sum(phase, metrics))
        return describe(values.tolist()) if values.size else None

    @property
    def time_range(self) -> TimeRange | None:
        """Return the range of real time of the whole run; None without a timed run."""
        seconds = _known(self._values(self.whole, "real"))
        seconds = seconds[seconds > 0]
        return TimeRange(float(seconds.mean()), float(seconds.min()), float(seconds.max())) if seconds.size else None

    def times(self, step: int) -> Iterator[RunTime]:
        """Return every ``step``-th run that took time, by real time of the whole run."""
        values, samples = self._values(self.whole, "real"), self.runs.samples(self._key)
        for place in range(0, values.size, step):
            if values[place] > 0:
                sample = samples[place]
                yield RunTime(place, sample.round, float(values[place]), sample.flags)

    @property
    def frozen_writes(self) -> FrozenWrites:
        names = ("frozen_write_bytes", "write_bytes", "flush_bytes")
        frozen, written, flushed = (float(np.nansum(self._values(self.whole, name))) for name in names)
        every = written + flushed
        return FrozenWrites(frozen / self.count, frozen / every if every > 0 else 0.0)

    def leaves_tree(self, phase: str) -> bool:
        """Return whether the cgroup counted CPU outside the waited-for tree: a daemon left the tree."""
        tree = self._values(phase, "user") + self._values(phase, "sys")
        group = self._values(phase, "cgroup_user") + self._values(phase, "cgroup_sys")
        # NaN if either is not measured, and then not greater either.
        return bool((np.abs(group - tree) > np.maximum(_ABSOLUTE, _RELATIVE * group)).any())

    def typical_run(self, phase: str) -> TypicalRun | None:
        """Return the typical run of a phase; None where no run has recorded its tasks."""
        reals, listed = self._values(phase, "real"), self.runs.tasks(self._key, phase)
        places = [i for i, tasks in enumerate(listed) if tasks and np.isfinite(reals[i])]
        if not places:
            return None
        mean = float(np.mean(reals[places]))
        place = min(places, key=lambda i: abs(float(reals[i]) - mean))
        tasks = tuple(sorted(listed[place], key=lambda task: task.started))
        return TypicalRun(self.arm, self.point, float(reals[place]), tasks)

    def _sum(self, phase: str, metrics: Sequence[str]) -> Floats:
        """Return the sum of these metrics of each run; NaN where one of them is not measured."""
        total: Floats = np.sum([self._values(phase, metric) for metric in metrics], axis=0)
        return total

    def _values(self, phase: str, metric: str) -> Floats:
        return self.runs.values(self._key, phase, metric)


@dataclass(frozen=True)
class PointRuns:
    """The arms that ran at one point, in the session's order."""

    point: str
    arms: tuple[ArmRuns, ...]

    @property
    def phases(self) -> tuple[str, ...]:
        """Return the names of the phases of all arms in order, ``total`` last."""
        return self.arms[0].runs.phases((runs.arm, runs.point) for runs in self.arms) if self.arms else ()

    def reported(self, phase: str) -> dict[str, Reported]:
        """Return the figures that the workload reports of a phase by any arm, each with one example."""
        keys = [(runs.arm, runs.point) for runs in self.arms]
        return self.arms[0].runs.reported(keys, phase) if self.arms else {}

    def leaves_tree(self, phase: str) -> bool:
        """Return whether processes of any arm left the tree."""
        return any(runs.leaves_tree(phase) for runs in self.arms)


def runs_by_point(runs: Runs, arms: Sequence[str]) -> tuple[PointRuns, ...]:
    """Return the points in the order of their values."""
    return tuple(
        PointRuns(point, tuple(ArmRuns(runs, arm, point) for arm in arms if runs.has((arm, point))))
        for point in runs.points
    )


def _known(values: Floats | int) -> Floats:
    listed = np.asarray(values, float)
    finite: Floats = listed[np.isfinite(listed)]
    return finite
