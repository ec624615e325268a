"""A suite: the tasks of a file share a budget, which goes where arms are undecided; then what each driver costs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kit.analysis.session.analyse import rank_so_far
from kit.analysis.session.outlook import find_outlook
from kit.analysis.session.timing import count_rounds, elapsed, round_seconds
from kit.core.errors import BusyError, KitError, UsageError
from kit.core.paths import resource
from kit.core.regular import read_text
from kit.extra.history.analysis.night import Task
from kit.extra.history.nightly.file import parse_nightly
from kit.extra.history.nightly.job import Job
from kit.extra.history.nightly.run import Measure, within
from kit.model.plan import DECIDE_FROM
from kit.model.session import DONE, Request, Session, new_session_id
from kit.session.setup.resumable import was_begun
from kit.store import SessionFilter, Store

#: A scenario's name that means a suite.
PREFIX = "suite:"
#: Seconds of a suite that names no budget; fewer than the second are left to no session.
SUITE_BUDGET, LEAST = 3600.0, 30.0
#: Sessions that are searched for those of a suite's last run.
_SEARCHED = 500

#: Gives an undecided session more seconds, or ends an interrupted one where they are None.
GoOn = Callable[[str, float | None], Session]


@dataclass(frozen=True)
class SuitePart:
    """A scenario of the suite."""

    task: Task
    session: Session | None = None
    error: str = ""  # why there is no session


@dataclass(frozen=True)
class Runner:
    """How sessions are run."""

    measure: Measure
    go_on: GoOn
    tell: Callable[[str], None]
    now: Callable[[], float] = field(default=time.monotonic)  # seconds of a clock that never goes back


def _directory() -> Path:
    return resource("scenarios") / "suites"


def suite_names() -> list[str]:
    """Return the bundled suites as kit compare takes them."""
    return sorted(f"{PREFIX}{path.stem}" for path in _directory().glob("*.toml"))


def find_suite(name: str) -> Job:
    """Return the suite of ``suite:storage`` or ``suite:FILE.toml``. Raises UsageError."""
    stem = name.removeprefix(PREFIX)
    path = Path(stem) if stem.endswith(".toml") else _directory() / f"{stem}.toml"
    if not stem.endswith(".toml") and not path.is_file():
        raise UsageError(f"unknown suite '{stem}'", f"use one of: {', '.join(suite_names())}; or {PREFIX}FILE.toml")
    job = parse_nightly(read_text(path, f"use for example {PREFIX}storage"), str(path), path.stem)
    names = [task.name for task in job.tasks]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{path}: two tasks have the name '{twice[0]}'", 'give one a title: title = "kernel, one job"')
    if any(task.thresholds for task in job.tasks):
        raise UsageError(f"{path}: a suite has no thresholds", f"run it with kit nightly {path}")
    return job


def new_run(job: Job) -> str:
    """Return the name of a run of the suite."""
    return f"{job.name} {new_session_id(time.time())}"


def find_run(job: Job, store: Store, machine: str, data: Path) -> tuple[str, dict[int, Session]]:
    """Return the name of the suite's last run on this machine and its sessions, without samples, by number of task.
    Only what this user has begun here counts: others may write to the store. A session counts for a task of its
    scenario or command alone, since the file may have changed. ``data``: the user's directory. Raises UsageError."""
    listed = store.list(SessionFilter(machine=machine), _SEARCHED)
    suite_heads = (head for head in listed if head.request.suite.startswith(f"{job.name} ") and not head.imported)
    heads = [head for head in suite_heads if was_begun(data, head)]
    if not heads:
        raise UsageError(f"no run of suite '{job.name}' of this user in the store", "start one: leave out --resume")
    run = heads[0].request.suite.rpartition(" ")[0]
    by_number: dict[int, Session] = {}
    for head in heads:  # the newest first
        name, _, number = head.request.suite.rpartition(" ")
        if name == run and number.isdecimal() and _is_of(head.request, job.tasks, int(number)):
            by_number.setdefault(int(number), head)
    return run, by_number


def _is_of(request: Request, tasks: Sequence[Task], number: int) -> bool:
    if not 1 <= number <= len(tasks):
        return False
    task_request = tasks[number - 1].request
    same_file = Path(request.scenario).name == Path(task_request.scenario).name
    return same_file and request.command == task_request.command


def run_suite(job: Job, run: str, earlier: Mapping[int, Session], runner: Runner) -> tuple[SuitePart, ...]:
    """Run each task once, for an equal share of the time that is left at most; then give the rest of the budget to the
    sessions that it probably decides soonest. ``earlier``: sessions of an earlier start, by number of task. A task that
    can't run does not stop the others. Raises KeyboardInterrupt, BusyError if another session has the machine."""
    deadline = runner.now() + (job.budget or SUITE_BUDGET)
    parts = []
    for number, task in enumerate(job.tasks, 1):
        remaining = deadline - runner.now()
        share = remaining / (len(job.tasks) - number + 1)
        request = replace(task.request, suite=f"{run} {number}")
        runner.tell(f"scenario {number} of {len(job.tasks)}: {task.name}")
        parts.append(_run(task, request, earlier.get(number), remaining, share, runner))
    return _decide(parts, deadline, runner)


def _run(
    task: Task, request: Request, earlier: Session | None, remaining: float, share: float, runner: Runner
) -> SuitePart:  # fmt: skip
    try:
        if earlier and earlier.status == DONE:
            return SuitePart(task, runner.go_on(earlier.id, None))
        if remaining < LEAST:
            return SuitePart(
                task, error="the budget was spent before this scenario: --resume last, or a larger --budget"
            )
        if not earlier:
            return SuitePart(task, runner.measure(within(request, share)))
        return SuitePart(task, runner.go_on(earlier.id, share if earlier.request.until_decided else None))
    except BusyError:
        raise
    except KitError as error:
        runner.tell(f"could not run {task.name}: {error.message}")
        return SuitePart(task, error=str(error))


def _decide(parts: Sequence[SuitePart], deadline: float, runner: Runner) -> tuple[SuitePart, ...]:
    """Continue undecided sessions, that which needs least first, until all are decided or the budget is spent. A task
    with a budget of its own has had it."""
    updated = list(parts)
    stuck: set[int] = set()
    while (remaining := deadline - runner.now()) >= LEAST:
        needed = {
            i: _seconds(part.session)
            for i, part in enumerate(updated)
            if i not in stuck and part.session and part.task.request.budget is None
        }
        open_ = {i: seconds for i, seconds in needed.items() if seconds is not None}
        if not open_:
            break
        i = min(open_, key=lambda number: open_[number])
        session = updated[i].session
        assert session
        runner.tell(f"undecided: {updated[i].task.name}; {len(open_)} scenario{'s' if len(open_) > 1 else ''} left")
        try:
            more = runner.go_on(session.id, min(remaining, max(2 * open_[i], LEAST)))
        except KitError as error:
            runner.tell(f"could not continue {updated[i].task.name}: {error.message}")
            stuck.add(i)
            continue
        if count_rounds(more) <= count_rounds(session):
            stuck.add(i)
        updated[i] = replace(updated[i], session=more)
    return tuple(updated)


def _seconds(session: Session) -> float | None:
    """Return how long the session would probably need until its arms are decided, or until it has as many rounds as a
    decision needs; infinite where it is probably too long, None where that is certain or not known."""
    if session.status != DONE or not session.request.until_decided:
        return None
    missing = DECIDE_FROM - count_rounds(session)
    if missing > 0:  # its share ended early: no figure of it has a useful interval
        return missing * (round_seconds(session) or elapsed(session) or LEAST)
    seconds = find_outlook(session, rank_so_far(session)).seconds
    return seconds[1] if seconds and math.isfinite(seconds[0]) else None
