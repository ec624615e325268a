"""A nightly file's job, or a suite's: tasks, store and limits of time. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from kit.extra.history.analysis.changepoint import CONFIRM
from kit.extra.history.analysis.night import Task
from kit.extra.history.analysis.regression import Rule
from kit.model.scenario import points

DEFAULT_OUTPUT = "kit-nightly"


@dataclass(frozen=True)
class Job:
    """One nightly file. ``budget`` and ``wait_idle`` are seconds, None for none. ``keep``: seconds after which sessions
    with the titles of tasks are removed, None for never; with ``keep_changes`` those at and next to change points of
    real time stay. ``notify``: where messages go, as the file says it; a URL there is a secret."""

    name: str
    tasks: tuple[Task, ...]
    store: str = ""
    output: str = DEFAULT_OUTPUT
    budget: float | None = None
    wait_idle: float | None = None
    confirm: int = CONFIRM
    keep: float | None = None
    keep_changes: bool = False
    notify: tuple[str, ...] = field(default=(), repr=False)

    def rule(self, task: Task) -> Rule:
        """Return the rule for a task's thresholds; all thresholds of the night are simultaneous."""
        family = sum(len(night_task.thresholds) * len(points(night_task.request.params)) for night_task in self.tasks)
        return Rule(task.on, self.confirm, max(family, 1))
