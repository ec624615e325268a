"""The first step of a session: what it runs, on which host, and how it begins in the store. New, resumed and assigned
sessions differ in this alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kit import __version__
from kit.arms.filesystem.device import check_devices
from kit.core.errors import KitError, MachineError, UsageError
from kit.core.paths import Paths
from kit.host.machine import Host, read_host
from kit.model.duration import estimate
from kit.model.event import EventSink, StatusChanged
from kit.model.fact import DEFAULT_REFERENCE, HOST_KERNEL, KERNEL, MACHINE, WORKER, stored
from kit.model.plan import check_reference
from kit.model.sample import TRACED
from kit.model.session import DONE, RUNNING, Request, Session, new_session_id, title_of
from kit.session.place import Place, find_places
from kit.session.plan.check import check_guest, check_prepared, check_request
from kit.session.plan.interleave_policy import ordered_as
from kit.session.plan.planning import prepare_begun
from kit.session.plan.schedule import whole_rounds
from kit.session.plan.series_order import keep_order
from kit.session.prepared import Prepared, StartOptions
from kit.session.setup.facts import version_facts
from kit.session.setup.resumable import check_begun, check_kernel, record_begun
from kit.store import Outbox, SessionFilter

if TYPE_CHECKING:
    from kit.store import Store


@dataclass(frozen=True)
class Resumption:
    """Finish the plan of a stopped session that began here: same seed, same order, missing runs only."""

    name: str
    budget: float | None = None  # more seconds for an open number of rounds, for this start alone


@dataclass(frozen=True)
class AssignedRounds:
    """Run these rounds of another machine's session, or all without a list, except those completed here already."""

    session: Session
    rounds: tuple[int, ...] = ()


#: What a session can begin with: a new one's request, or one of the two above.
SessionRequest = Request | Resumption | AssignedRounds


@dataclass(frozen=True)
class PlannedSession:
    """A session before the machine is held."""

    session: Session
    prepared: Prepared
    host: Host  # as the workload will find it
    place: Place | None  # None: this machine
    begin: Callable[[Outbox], Session]  # marks it as running in the store; returns it with all samples so far


def plan_session(
    request: SessionRequest, paths: Paths, store: Store, observer: EventSink, options: StartOptions
) -> PlannedSession | Session:
    """Return what will run, or a complete session of which nothing is left to run. Raises UsageError, MachineError."""
    match request:
        case Resumption():
            return _plan_resumed(request, paths, store, observer, options)
        case AssignedRounds():
            return _plan_assigned(request, paths, store, observer)
    return _plan_new(request, paths, store, observer, options)


def _plan_new(
    request: Request, paths: Paths, store: Store, observer: EventSink, options: StartOptions
) -> PlannedSession:  # fmt: skip
    request, place, host = _where(request, paths, observer)
    prepared = check_request(request, host=host, wipe=options.wipe)
    # Needed before the rest is known: a session may stop immediately, and be resumed.
    session = new_session(prepared, options.reference).with_facts([MACHINE.fact(host.machine), *prepared.devices])
    if options.keep_order:
        session = keep_order(session, prepared, host, store)
    observer.tell(estimate(prepared.plan, _last_alike(session, store)))

    def begin(outbox: Outbox) -> Session:
        record_begun(paths.data, session, observer.tell)
        outbox.create(session)
        return session

    return PlannedSession(session, prepared, host, place, begin)


def new_session(prepared: Prepared, reference: str = "") -> Session:
    """Return a session that has not begun. Raises UsageError if ``reference``, the arm of its ranking, is not in it."""
    check_reference(reference, prepared.plan.arms)
    now, plan = time.time(), prepared.plan
    return Session(
        id=new_session_id(now),
        created=now,
        kit_version=__version__,
        title=title_of(prepared.request, prepared.scenario.label),
        status=RUNNING,
        request=prepared.request,
        arms=tuple(map(str, plan.arms)),
        baselines=plan.baselines,
        seed=plan.seed,
        plan=plan,
        facts=stored(
            [
                *([DEFAULT_REFERENCE.fact(prepared.default_reference)] if prepared.default_reference else []),
                *version_facts(prepared.request),
            ]
        ),
    )


def _last_alike(session: Session, store: Store) -> Session | None:
    """Return the last finished session with that title on this machine. None if it can't be read, which does not
    prevent a new session."""
    with suppress(KitError):
        for head in store.list(SessionFilter(session.title, machine=MACHINE.text(session.facts), status=DONE), most=1):
            return store.get(head.id)
    return None


def _plan_resumed(
    request: Resumption, paths: Paths, store: Store, observer: EventSink, options: StartOptions
) -> PlannedSession | Session:
    """A complete session is returned as it is, unless the budget is extended, or the store has lost runs."""
    stored_session = store.get(request.name)
    check_reference(options.reference, stored_session.arms)
    _check_own(stored_session, read_host())
    check_begun(paths.data, stored_session)
    session = _with_budget(stored_session, request.budget)
    more = _has_more(session, request.budget)
    if session.status == DONE and not more:
        observer.tell(f"session {session.id} is done: nothing is left to run")
        return session
    _, place, host = _where(session.request, paths, observer)
    check_kernel(session, HOST_KERNEL if place else KERNEL, host.kernel)
    prepared = prepare_begun(session, host)
    check_prepared(prepared)
    check_devices(session.request, options.wipe, session)

    def begin(outbox: Outbox) -> Session:
        current = _run_again(outbox, store.get(session.id), more)
        # From the store's current version, only the results are used: the commands were checked.
        return replace(
            session, status=current.status, facts=current.facts, not_run=current.not_run, samples=current.samples
        )

    return PlannedSession(session, prepared, host, place, begin)


def _with_budget(session: Session, budget: float | None) -> Session:
    """Return the session with another budget, if one is named."""
    if budget is None:
        return session
    plan, request = session.kept_plan(), session.request
    return replace(session, plan=replace(plan, budget=budget), request=replace(request, budget=budget))


def _has_more(session: Session, budget: float | None) -> bool:
    """Return whether a session has runs to make although it is done. ``budget``: more seconds for them."""
    plan = session.kept_plan()
    if budget is not None and plan.until_decided and not any(sample.kind == TRACED for sample in session.samples):
        return True
    return not plan.open_ended and not whole_rounds(session, plan).issuperset(range(1, plan.rounds + 1))


def _run_again(outbox: Outbox, current: Session, more: bool) -> Session:
    """Mark the session as running again. Another start may have finished it while this one waited: then only if there
    is ``more`` to run."""
    if current.status == DONE and not more:
        return current
    outbox.take(StatusChanged(RUNNING))
    return replace(current, status=RUNNING)


def _plan_assigned(request: AssignedRounds, paths: Paths, store: Store, observer: EventSink) -> PlannedSession:
    session, rounds = request.session, request.rounds
    _, place, host = _where(session.request, paths, observer)
    prepared = prepare_begun(session, host)
    prepared = replace(prepared, plan=replace(prepared.plan, assigned=rounds))
    check_prepared(prepared)
    check_devices(session.request, (), session)

    def begin(outbox: Outbox) -> Session:
        try:
            current = store.get(session.id)
        except UsageError:
            outbox.create(session)
            return session
        return ordered_as(_run_again(outbox, current, bool(rounds)), session.facts)

    return PlannedSession(session, prepared, host, place, begin)


def _check_own(session: Session, host: Host) -> None:
    """Check that the session began here by this store's user: only such commands run again. Raises UsageError."""
    if session.imported:
        raise UsageError(
            f"session {session.id} was imported",
            "start a new one with kit compare: only sessions begun in this store can be resumed",
        )
    if WORKER.text(session.facts):
        again = f"use {session.resume_command}" if session.resume_command else "start a new one on the fleet"
        raise UsageError(f"session {session.id} ran on a fleet", again)
    if MACHINE.text(session.facts) != host.machine:
        raise UsageError(f"session {session.id} began on another machine", "resume it there, or start a new one")


def _where(request: Request, paths: Paths, observer: EventSink) -> tuple[Request, Place | None, Host]:
    """Return the place where the session will run, None for this machine; the request that names it; and the host as
    the workload will find it. Raises UsageError, MachineError."""
    host = read_host()
    if not request.guest:
        return request, None, host
    if not host.root:
        raise MachineError("a guest needs root: its disks hold whole root filesystems", "run as root: sudo kit …")
    check_guest(request)
    place = find_places().find(request, paths.cache, observer.tell)
    cores = place.cores(request.guest_cores or host.cores)
    return replace(request, guest=place.kind), place, replace(host, cores=cores)
