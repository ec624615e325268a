"""Runs a nightly job: each task is a session, stored, and checked against its thresholds and its history."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kit.analysis.session.analyse import Analysis, analyse
from kit.analysis.session.threshold import Threshold
from kit.core.errors import AwayError, KitError
from kit.core.paths import Paths
from kit.extra.history.analysis.changepoint import ChangeHistory
from kit.extra.history.analysis.night import Night, Part, Task
from kit.extra.history.analysis.regression import Finding, Rule, judge, missing
from kit.extra.history.nightly.job import Job
from kit.extra.history.tracks import find_track, find_tracks, find_whose
from kit.model.event import EventSink
from kit.model.plan import DEFAULT_BUDGET
from kit.model.session import DONE, Request, Session
from kit.session.launch import launch
from kit.session.plan.check import check_request, limits_note
from kit.session.prepared import StartOptions
from kit.session.prune import plan_pruning, prune
from kit.store import Store
from kit.store.retention import Retention, find_limit
from kit.store.schema.tables import machine_of

#: Makes a finished session from a request.
Measure = Callable[[Request], Session]


def run_night(job: Job, paths: Paths, store: Store, observer: EventSink, elsewhere: Measure | None = None) -> Night:
    """Run all tasks; one that can't run does not stop the others. ``elsewhere``: runs a request on other machines than
    this. Raises KeyboardInterrupt."""
    here = elsewhere is None
    measure = elsewhere or partial(_launch, paths=paths, store=store, observer=observer, idle=job.wait_idle)
    started = time.time()
    deadline = time.monotonic() + job.budget if job.budget else None
    parts = []
    for number, task in enumerate(job.tasks, 1):
        observer.tell(f"task {number} of {len(job.tasks)}: {task.name}")
        parts.append(_run(task, job, store, observer, deadline, measure, here))
    return Night(job.name, started, tuple(parts))


def _launch(request: Request, paths: Paths, store: Store, observer: EventSink, idle: float | None) -> Session:
    return launch(request, paths, store, observer, StartOptions(wait=True, idle=idle, keep_order=True))


def _run(
    task: Task, job: Job, store: Store, observer: EventSink, deadline: float | None, measure: Measure, here: bool
) -> Part:
    began = time.monotonic()
    request = replace(task.request, ignore=task.across, confirm=job.confirm)  # kit history then reads it as the night
    if deadline is not None:
        remaining = deadline - began
        if remaining <= 0:
            return Part(task, error="the job's budget was spent before this task")
        request = within(request, remaining)
    try:
        plan = check_request(request, task.thresholds, here=here).plan
        if note := limits_note(task.thresholds, plan):
            observer.tell(note)
        session = measure(request)
        part = assess(task, session, store, job.rule(task))
    except KitError as error:
        observer.tell(f"could not run {task.name}: {error.message}")
        part = Part(task, error=str(error))
    return replace(part, seconds=time.monotonic() - began)


def prune_night(job: Job, night: Night, paths: Paths, store: Store) -> str:
    """Remove old sessions that have title and machine of a task that ran, with their logs, as the job says; return one
    line, '' without a rule. Raises KitError."""
    titles = {part.session.title: part.task.across for part in night.parts if part.session}
    machines = tuple({machine_of(part.session.facts) for part in night.parts if part.session})
    if job.keep is None or not titles:
        return ""
    now = time.time()
    before = find_limit(store, job.keep, now).before
    rule = Retention(before, job.keep_changes, titles, machines=machines, confirm=job.confirm)
    pruning = plan_pruning(store, paths, rule, now)
    prune(store, paths, pruning)
    return f"removed: {pruning}"


def within(request: Request, seconds: float) -> Request:
    """Return the request of a task, for a job with this number of seconds left. An open number of rounds ends by
    then."""
    if request.precision is None and request.budget is None:
        return replace(request, budget=seconds) if request.until_decided and seconds < DEFAULT_BUDGET else request
    return replace(request, budget=min(seconds, request.budget or seconds))


def assess(task: Task, session: Session, store: Store, rule: Rule) -> Part:
    """Check a session against the task's thresholds and the store's history."""
    analysis = analyse(session)
    error = ""
    if session.status != DONE or session.failed:
        what = session.failed[0] if session.failed else None
        error = f"{what.arm}, round {what.round}: {what.error}" if what else f"the session is {session.status}"
    try:
        findings = [
            finding
            for threshold in task.thresholds
            for finding in _findings(threshold, task, session, analysis, store, rule)
        ]
        tracks = find_tracks(session, analysis, store, task.across, rule.confirm)
        common = tuple(change for track in tracks for change in find_whose(track, session, store, task.across))
    except AwayError as away:
        unjudged = f"measured and kept, but not compared with its history: {away.message}"
        return Part(task, session, analysis, error=error or unjudged)
    # Also phases and other metrics that a threshold names.
    tracks += tuple(
        ChangeHistory(finding.series, finding.changes, rule.confirm)
        for finding in findings
        if finding.series and (finding.threshold.phase or finding.threshold.metric != "real")
    )
    return Part(task, session, analysis, tuple(findings), tracks, error, common=common)


def _findings(
    threshold: Threshold, task: Task, session: Session, analysis: Analysis, store: Store, rule: Rule
) -> list[Finding]:
    comparisons = [comparison for comparison in threshold.find(analysis.comparisons) if comparison.ratio is not None]
    if not comparisons or session.status != DONE:
        skipped = [blocked for blocked in session.not_run if blocked.arm == threshold.arm]
        why = f"not run: {skipped[0].reason}; fix: {skipped[0].fix}" if skipped else "not measured in this session"
        return [missing(threshold, why)]
    tracks = [
        (comparison, find_track(comparison, session, store, task.across, rule.confirm)) for comparison in comparisons
    ]
    return [judge(threshold, comparison, track.series, track.changes, rule) for comparison, track in tracks]
