"""From a request to a finished session: finds scenario, image and inputs, prepares arms, runs the plan."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kit import __version__
from kit.core.errors import KitError, MachineError, UnavailableError, UsageError
from kit.core.paths import Paths
from kit.filesystem.device import check_devices
from kit.host.cgroup.idle import wait_idle
from kit.host.interrupt import interruptible
from kit.host.machine import Host, read_host
from kit.model.duration import estimate
from kit.model.event import EventSink, FactsKnown, Relay, SessionStarted, StatusChanged
from kit.model.fact import DEFAULT_REFERENCE, HOST_KERNEL, KERNEL, MACHINE, WORKER, stored
from kit.model.plan import check_reference
from kit.model.sample import TRACED
from kit.model.session import DONE, FAILED, INTERRUPTED, RUNNING, NotRun, Request, Session, new_session_id, title_of
from kit.session.execute.executor import execute
from kit.session.execute.materials import equipped, gather
from kit.session.execute.session_loop import held_machine
from kit.session.measure.context import MachineLease
from kit.session.plan.check import check_guest, check_prepared, check_request
from kit.session.plan.interleave_policy import ordered_as
from kit.session.plan.planning import prepare_begun
from kit.session.plan.schedule import whole_rounds
from kit.session.plan.series_order import keep_order
from kit.session.prepared import Prepared, SessionContext, StartOptions
from kit.session.setup.facts import version_facts
from kit.session.setup.resumable import check_begun, check_kernel, record_begun
from kit.store import Outbox, SessionFilter

if TYPE_CHECKING:
    from kit.guest import Machine
    from kit.store import Store


def launch(request: Request, paths: Paths, store: Store, observer: EventSink, start: StartOptions) -> Session:
    """Run a new session. Raises KitError, KeyboardInterrupt; the samples measured until then are in the store."""
    request, machine, host = _where(request, paths, observer)
    prepared = check_request(request, host=host, wipe=start.wipe)
    # Needed before the rest is known: a session may stop immediately, and be resumed.
    session = new_session(prepared, start.reference).with_facts([MACHINE.fact(host.machine), *prepared.devices])
    if start.keep_order:
        session = keep_order(session, prepared, host, store)
    observer.tell(estimate(prepared.plan, _last_alike(session, store)))

    def begin(sink: Outbox) -> Session:
        record_begun(paths.data, session, observer.tell)
        sink.create(session)
        return session

    context = SessionContext(prepared, host, paths, observer, start, machine)
    return _run_on_machine(session, context, store, begin)


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


def resume(
    name: str, paths: Paths, store: Store, observer: EventSink, start: StartOptions, budget: float | None = None
) -> Session:
    """Finish the plan of a stopped session that began here: same seed, same order, missing runs only. A complete
    session is returned unchanged, unless ``budget`` gives more seconds to an open number of rounds, for this start
    alone. Raises UsageError."""
    begun = store.get(name)
    check_reference(start.reference, begun.arms)
    _check_own(begun, read_host())
    check_begun(paths.data, begun)
    plan, session = begun.kept_plan(), begun
    if budget is not None:
        plan = replace(plan, budget=budget)
        session = replace(begun, plan=plan, request=replace(begun.request, budget=budget))
    goes_on = budget is not None and plan.until_decided and not any(item.kind == TRACED for item in session.samples)
    lost = set(range(1, plan.rounds + 1)) - whole_rounds(session, plan) if not plan.open_ended else ()
    goes_on = goes_on or bool(lost)
    if session.status == DONE and not goes_on:
        observer.tell(f"session {session.id} is done: nothing is left to run")
        return session
    _, machine, host = _where(session.request, paths, observer)
    check_kernel(session, HOST_KERNEL if machine else KERNEL, host.kernel)
    prepared = prepare_begun(session, host)
    check_prepared(prepared)
    check_devices(session.request, start.wipe, session)

    def begin(sink: Outbox) -> Session:
        found = store.get(session.id)  # another start may have resumed it while this one waited
        if found.status != DONE or goes_on:
            sink.take(StatusChanged(RUNNING))
            found = replace(found, status=RUNNING)
        # From the store's current version, only the results are used: the commands were checked.
        return replace(session, status=found.status, facts=found.facts, not_run=found.not_run, samples=found.samples)

    context = SessionContext(prepared, host, paths, observer, start, machine)
    return _run_on_machine(session, context, store, begin)


def run_assigned(session: Session, rounds: tuple[int, ...], paths: Paths, store: Store, observer: EventSink) -> Session:
    """Run the plan of another machine: these rounds of a session, or all without a list. Rounds that this machine has
    already completed are skipped. Raises the errors of ``launch``."""
    _, machine, host = _where(session.request, paths, observer)
    prepared = prepare_begun(session, host)
    prepared = replace(prepared, plan=replace(prepared.plan, assigned=rounds))
    check_prepared(prepared)
    check_devices(session.request, (), session)

    def begin(sink: Outbox) -> Session:
        try:
            found = store.get(session.id)
        except UsageError:
            sink.create(session)
            return session
        if found.status != DONE or rounds:
            sink.take(StatusChanged(RUNNING))
            found = replace(found, status=RUNNING)
        return ordered_as(found, session.facts)

    context = SessionContext(prepared, host, paths, observer, StartOptions(wait=True), machine)
    return _run_on_machine(session, context, store, begin)


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


def _where(request: Request, paths: Paths, observer: EventSink) -> tuple[Request, Machine | None, Host]:
    """Return the guest in which the session will run, None for this machine; the request that names it; and the host as
    the workload will find it. Raises UsageError, MachineError."""
    host = read_host()
    if not request.guest:
        return request, None, host
    from kit.guest import Tools, make_machine

    if not host.root:
        raise MachineError("a guest needs root: its disks hold whole root filesystems", "run as root: sudo kit …")
    check_guest(request)
    kernel, modules = (Path(text).absolute() if text else None for text in (request.kernel, request.modules))
    machine = make_machine(request.guest, Tools(paths.cache, observer.tell), kernel, modules)
    cores = machine.cores(request.guest_cores or host.cores)
    return replace(request, guest=machine.kind), machine, replace(host, cores=cores)


def _run_on_machine(
    session: Session, context: SessionContext, store: Store, begin: Callable[[Outbox], Session]
) -> Session:
    """Hold the machine and run the rest of the session; its final state is in the store however it ends. ``begin``
    marks the session as running in the store, and returns it with all samples so far."""
    start = context.start
    with ExitStack() as stack:
        lease = stack.enter_context(held_machine(session.id, context.paths, start.wait, context.events))
        if start.idle is not None:
            wait_idle(start.idle, context.events.tell)
        check_devices(session.request, start.wipe, session)  # again: it may have waited for hours
        sink = stack.enter_context(Outbox(session, store, context.paths.data, context.events.tell))
        context = replace(context, events=Relay(sink, context.events))
        session = begin(sink)
        if session.status == DONE:
            return session
        context.events.take(SessionStarted(session))
        image = f", image {context.prepared.image}" if session.request.own_command and context.prepared.image else ""
        context.events.tell(f"session {session.id}: {session.title}{image}")
        try:
            session = _ready(session, context, lease)()
        except KeyboardInterrupt:
            sink.take(StatusChanged(INTERRUPTED))
            raise
        except BaseException:
            sink.take(StatusChanged(FAILED))
            raise
        sink.take(StatusChanged(session.status))
        if session.status == DONE:
            store.keep_outcomes(session)
    return replace(session, status=FAILED) if sink.lost else session


def _ready(session: Session, context: SessionContext, lease: MachineLease) -> Callable[[], Session]:
    """Gather the session's materials, and return the way to run it: here, in a guest, or not at all."""
    lease = equipped(lease, session.request.docker, session.request.thin_device)
    try:
        with interruptible():
            materials = gather(context, lease)
    except UnavailableError as error:
        not_run = tuple(NotRun(str(arm), error.message, error.hint) for arm in context.prepared.plan.arms)
        failed = replace(session, not_run=not_run, status=FAILED)
        context.events.take(FactsKnown.of(failed))
        return lambda: failed
    if context.machine is None:
        return partial(execute, session, context, lease, materials)
    from kit.session.guest.host import visit

    return partial(visit, session, context, lease, materials, context.machine)
