"""Parsers of workloads' output: text in, reported figures or tasks out. A new one is a file here and a line below.
Pure. Imports core."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Container
from dataclasses import dataclass, replace

from kit.core.errors import RunError
from kit.parsers.figure import Reported
from kit.parsers.task import BuildTask

Parser = Callable[[str], tuple[Reported | BuildTask, ...]]

#: Values of ``report = "NAME"`` of a phase, each with its parser, imported on use. Each raises ValueError with the
#: reason if a text can't be read.
PARSERS = {
    "lines": "kit.parsers.lines:parse_lines",
    "fio": "kit.parsers.fio:parse_fio",
    "bonnie": "kit.parsers.bonnie:parse_bonnie",
    "buildstats": "kit.parsers.buildstats:parse_buildstats",
    "buildkit": "kit.parsers.buildkit:parse_buildkit",
    "build-steps": "kit.parsers.build_steps:parse_build_steps",
}
#: Limits of the store: characters of a report, its figures and tasks, characters of a name and of a unit.
LONGEST, MOST, MOST_TASKS, LONGEST_NAME, LONGEST_UNIT = 16 << 20, 1000, 20_000, 100, 40
#: Most characters of a reason, which may contain output.
_REASON = 300


@dataclass(frozen=True)
class Report:
    """A phase's report."""

    figures: tuple[Reported, ...]
    tasks: tuple[BuildTask, ...]

    def since(self, began: float) -> Report:
        """Return the report with tasks that started in Unix time as those of a phase that began then."""
        return replace(self, tasks=tuple(replace(task, started=task.started - began) for task in self.tasks))

    def summed(self) -> Report:
        """Return the report with each kind of task as one figure: the sum of their durations."""
        sums: dict[str, float] = {}
        for task in self.tasks:
            sums[task.kind] = sums.get(task.kind, 0.0) + task.elapsed
        figures = tuple(Reported(f"build: {kind}", seconds, "s") for kind, seconds in sums.items())
        return Report((*figures, *self.figures), ())

    def on_clock(self, clock: Callable[[float], float]) -> Report:
        """Return the report with task times on the clock of a phase that was frozen at times. ``clock``: seconds that
        the phase had run at a Unix time."""

        def own(task: BuildTask) -> BuildTask:
            began = clock(task.started)
            return replace(task, started=began, elapsed=max(0.0, clock(task.started + task.elapsed) - began))

        return replace(self, tasks=tuple(map(own, self.tasks)))


NOTHING = Report((), ())


def parse_report(name: str, text: str, reserved: Container[str] = ()) -> Report:
    """Parse a phase's output. ``reserved``: names that no figure may have. Raises RunError with the reason if it can't
    be read."""
    parser: Parser = pkgutil.resolve_name(PARSERS[name])
    try:
        if len(text) > LONGEST:
            raise ValueError(f"it printed more than {LONGEST >> 20} Mi characters")
        values = parser(text)
        if not values:
            raise ValueError("it printed no figures")
        report = Report(
            tuple(value for value in values if isinstance(value, Reported)),
            tuple(value for value in values if isinstance(value, BuildTask)),
        )
        _check(report, reserved)
    except ValueError as error:
        raise RunError(
            f"the figures that it reports can't be read as {name}: {str(error)[:_REASON]}", "see its log"
        ) from None
    return report


def _check(report: Report, reserved: Container[str]) -> None:
    for what, listed, most in (("figures", report.figures, MOST), ("tasks", report.tasks, MOST_TASKS)):
        if len(listed) > most:
            raise ValueError(f"it printed more than {most} {what}")
    for figure in report.figures:
        _check_name(figure.name)
        if figure.name in reserved:
            raise ValueError(f"'{figure.name}' is the name of a metric: rename it")
        if len(figure.unit) > LONGEST_UNIT or not figure.unit.isprintable():
            raise ValueError(f"the unit of '{figure.name}' is too long or holds control characters")
    for name in {name for task in report.tasks for name in (task.kind, task.recipe)}:
        _check_name(name)


def _check_name(name: str) -> None:
    if not name or len(name) > LONGEST_NAME:
        raise ValueError(f"the name '{name[:LONGEST_NAME]}' is empty or too long")
    if not name.isprintable():
        raise ValueError(f"the name {name!r} holds control characters")
