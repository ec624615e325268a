"""The session before tonight's, from the store: judged by the same rules, it says what the night changed. So no file
keeps states."""

from __future__ import annotations

from kit.core.errors import AwayError
from kit.extra.history.analysis.night import Night, Part, Task
from kit.extra.history.analysis.state_change import StateChange, find_state_changes
from kit.extra.history.nightly.job import Job
from kit.extra.history.nightly.run import assess
from kit.model.session import RUNNING, Session, title_of
from kit.session.plan.planning import find_scenario, plan_of
from kit.store import SessionFilter, Store
from kit.store.schema.tables import machine_of

#: Sessions of a task's title that are searched for one with its arms: others were started by hand.
_SEARCHED = 20


def find_night_changes(job: Job, night: Night, store: Store) -> tuple[StateChange, ...]:
    """Return what changed since the sessions before the night's, task by task. Raises KitError."""
    return tuple(change for part in night.parts for change in find_state_changes(_find_before(part, job, store), part))


def find_last_night(job: Job, store: Store) -> Night:
    """Return the newest session of each task as a night; without the tasks that have none. Raises KitError."""
    parts = []
    for task in job.tasks:
        request = task.request
        title = title_of(request, find_scenario(request.scenario).label if request.scenario else "")
        arms = tuple(map(str, plan_of(request).arms))
        if session := _find_newest(store, SessionFilter(title), arms):
            parts.append(_judge(task, session, job, store))
    started = max((part.session.created for part in parts if part.session), default=0.0)
    return Night(job.name, started, tuple(parts))


def _find_before(part: Part, job: Job, store: Store) -> Part | None:
    """Return the previous session of the same task on the same machine, judged as in its own night; None if there is
    none, or if the server does not answer."""
    session = part.session
    if session is None:
        return None
    selection = SessionFilter(session.title, machines=(machine_of(session.facts),), until=session.created)
    try:
        earlier = _find_newest(store, selection, session.arms, session.id)
        return _judge(part.task, earlier, job, store) if earlier else None
    except AwayError:
        return None


def _find_newest(store: Store, selection: SessionFilter, arms: tuple[str, ...], other_than: str = "") -> Session | None:
    for head in store.list(selection, _SEARCHED):
        if head.arms == arms and head.id != other_than and head.status != RUNNING:
            return store.get(head.id)
    return None


def _judge(task: Task, session: Session, job: Job, store: Store) -> Part:
    return assess(task, session, store, job.rule(task))
