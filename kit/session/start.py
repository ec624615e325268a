"""From a request to a finished session: finds scenario, image and inputs, prepares arms, runs the plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kit import __version__
from kit.core.errors import KitError, MachineError, UnavailableError, UsageError
from kit.core.paths import Paths
from kit.host.cgroup.idle import wait_idle
from kit.host.interrupt import interruptible
from kit.host.machine import Host, read_host
from kit.image import ImageCache
from kit.model.drivers import SYSTEM
from kit.model.estimate import how_long, round_seconds
from kit.model.event import EventSink, FactsKnown, Relay, SessionStarted, StatusChanged
from kit.model.fact import HOST_KERNEL, KERNEL, MACHINE, REFERENCE, WORKER, stored
from kit.model.sample import TRACED
from kit.model.session import DONE, FAILED, INTERRUPTED, RUNNING, NotRun, Request, Session, new_session_id, title_of
from kit.session.execute.executor import LoadMaterials, Materials, SessionContext, check_kernel, equipped, execute
from kit.session.execute.materials import Gatherer
from kit.session.execute.session_loop import held_machine
from kit.session.measure.context import MachineLease
from kit.session.plan.interleave_policy import ordered_as
from kit.session.plan.planning import prepare, prepare_begun
from kit.session.plan.request_snapshot import whole_rounds
from kit.session.prepared import Prepared
from kit.session.setup.device_guard import check_devices, device_facts
from kit.session.setup.resumable import check_begun, record_begun
from kit.store import Outbox, SessionFilter

if TYPE_CHECKING:
    from kit.guest import Machine
    from kit.store import Store


@dataclass(frozen=True)
class WaitPolicy:
    """The conditions for the start of a session. ``wait``: wait for the end of another session instead of an error.
    ``idle``: wait for a quiet machine, at most this number of seconds; None: do not wait."""

    wait: bool = False
    idle: float | None = None


def launch(
    request: Request,
    paths: Paths,
    store: Store,
    observer: EventSink,
    patience: WaitPolicy,
    wipe: Collection[Path] = (),
) -> Session:
    """Run a new session. ``wipe``: its devices that may be overwritten. Raises KitError, KeyboardInterrupt; the samples
    measured until then are in the store."""
    request, machine, host = _where(request, paths, observer, read_host())
    prepared = prepare(request, host)
    session = new_session(prepared)
    # Needed before the rest is known: a session may stop immediately, and be resumed.
    session = session.with_facts([MACHINE.fact(host.machine), *device_facts(session.request)])
    check_devices(session, wipe)
    last = _last_alike(session, store)
    not_run = {item.arm for item in last.not_run} if last else set()
    able = sum(str(arm) not in not_run for arm in prepared.plan.arms)
    observer.tell(how_long(prepared.plan, round_seconds(last.samples) if last else None, able))

    def begin(sink: Outbox) -> Session:
        record_begun(paths.data, session, observer.tell)
        sink.create(session)
        return session

    context = SessionContext(prepared, host, paths, observer, tuple(wipe))
    return _run_on_machine(session, context, store, patience, begin, machine)


def new_session(prepared: Prepared) -> Session:
    """Return a session that has not begun."""
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
        facts=stored([REFERENCE.fact(prepared.usual)] if prepared.usual else []),
    )


def _last_alike(session: Session, store: Store) -> Session | None:
    """Return the last finished session with that title on this machine. None if it can't be read, which does not
    prevent a new session."""
    with suppress(KitError):
        for head in store.list(SessionFilter(session.title, machine=MACHINE.text(session.facts), status=DONE), most=1):
            return store.get(head.id)
    return None


def resume(
    name: str,
    paths: Paths,
    store: Store,
    observer: EventSink,
    patience: WaitPolicy,
    wipe: Collection[Path] = (),
    budget: float | None = None,
) -> Session:
    """Finish the plan of a stopped session that began here: same seed, same order, missing runs only. A complete
    session is returned unchanged, unless ``budget`` gives more seconds to an open number of rounds. ``wipe``,
    ``budget``: for this start alone. Raises UsageError."""
    begun = store.get(name)
    _check_own(begun, read_host())
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
    check_begun(paths.data, begun)
    _, machine, host = _where(session.request, paths, observer, read_host())
    check_kernel(session, HOST_KERNEL if machine else KERNEL, host.kernel)
    prepared = prepare_begun(session, host)
    check_devices(session, wipe)

    def begin(sink: Outbox) -> Session:
        found = store.get(session.id)  # another start may have resumed it while this one waited
        if found.status != DONE or goes_on:
            sink.take(StatusChanged(RUNNING))
            found = replace(found, status=RUNNING)
        # From the store's current version, only the results are used: the commands were checked.
        return replace(session, status=found.status, facts=found.facts, not_run=found.not_run, samples=found.samples)

    context = SessionContext(prepared, host, paths, observer, tuple(wipe))
    return _run_on_machine(session, context, store, patience, begin, machine)


def run_assigned(session: Session, rounds: tuple[int, ...], paths: Paths, store: Store, observer: EventSink) -> Session:
    """Run the plan of another machine: these rounds of a session, or all without a list. Rounds that this machine has
    already completed are skipped. Raises the errors of ``launch``."""
    _, machine, host = _where(session.request, paths, observer, read_host())
    prepared = prepare_begun(session, host)
    prepared = replace(prepared, plan=replace(prepared.plan, assigned=rounds))
    check_devices(session, ())

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

    context = SessionContext(prepared, host, paths, observer)
    return _run_on_machine(session, context, store, WaitPolicy(wait=True), begin, machine)


def _check_own(session: Session, host: Host) -> None:
    """Check that the session began here by this store's user: only such commands run again. Raises UsageError."""
    if session.imported:
        raise UsageError(
            f"session {session.id} was imported",
            "start a new one with kit compare: only sessions begun in this store can be resumed",
        )
    if WORKER.text(session.facts):
        raise UsageError(
            f"session {session.id} ran on a fleet", f"use kit compare --resume {session.id} --fleet SCHEDULER"
        )
    if MACHINE.text(session.facts) != host.machine:
        raise UsageError(f"session {session.id} began on another machine", "resume it there, or start a new one")


def _where(request: Request, paths: Paths, observer: EventSink, host: Host) -> tuple[Request, Machine | None, Host]:
    """Return the guest in which the session will run, None for this machine; the request that names it; and the host as
    the workload will find it. Raises UsageError, MachineError."""
    if not request.guest:
        return request, None, host
    from kit.guest import Tools, make_machine

    if not host.root:
        raise MachineError("a guest needs root: its disks hold whole root filesystems", "run as root: sudo kit …")
    theirs = (request.device, request.directory, request.export, request.docker, request.thin_device)
    if request.engine == SYSTEM or any(theirs):
        raise UsageError(
            "a guest has disks and engines of its own",
            "leave out --engine system, --device, --dir, --export, --docker and --thin-device, or --guest",
        )
    kernel, modules = (Path(text).absolute() if text else None for text in (request.kernel, request.modules))
    machine = make_machine(request.guest, Tools(paths.cache, observer.tell), kernel, modules)
    cores = machine.cores(request.guest_cores or host.cores)
    return replace(request, guest=machine.kind), machine, replace(host, cores=cores)


def _run_on_machine(
    session: Session,
    context: SessionContext,
    store: Store,
    patience: WaitPolicy,
    begin: Callable[[Outbox], Session],
    machine: Machine | None,
) -> Session:
    """Hold the machine and run the rest of the session; its final state is in the store however it ends. ``begin``
    marks the session as running in the store, and returns it with all samples so far."""
    with ExitStack() as stack:
        lease = stack.enter_context(held_machine(session.id, context.paths, patience.wait, context.events))
        if patience.idle is not None:
            wait_idle(patience.idle, context.events.tell)
        check_devices(session, context.wipe)  # again: it may have waited for hours
        sink = stack.enter_context(Outbox(session, store, context.paths.data, context.events.tell))
        context = replace(context, events=Relay(sink, context.events))
        session = begin(sink)
        if session.status == DONE:
            return session
        context.events.take(SessionStarted(session))
        context.events.tell(f"session {session.id}: {session.title}")
        try:
            session = _ready(session, context, equipped(lease, session.request), machine)()
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


def _ready(
    session: Session, context: SessionContext, lease: MachineLease, machine: Machine | None
) -> Callable[[], Session]:
    """Gather the session's materials, and return the way to run it: here, in a guest, or not at all."""
    if machine:
        from kit.guest import Tools
        from kit.session.guest.kernel import with_kernel

        tools = Tools(lease.paths.cache, context.events.tell)
        with interruptible():
            machine = with_kernel(machine, session, context.prepared.plan.arms, tools)
    try:
        with interruptible():
            materials = _gather(context, lease)
    except UnavailableError as error:
        not_run = tuple(NotRun(str(arm), error.message, error.hint) for arm in context.prepared.plan.arms)
        failed = replace(session, not_run=not_run, status=FAILED)
        context.events.take(FactsKnown.of(failed))
        return lambda: failed
    if machine is None:
        return partial(execute, session, context, lease, materials)
    from kit.session.guest.host import visit

    return partial(visit, session, context, lease, materials, machine)


def _gather(context: SessionContext, lease: MachineLease) -> Materials:
    """Find, build or fetch image and inputs, also those of the background load. Raises the errors of Gatherer."""
    prepared = context.prepared
    gatherer = Gatherer(lease, context.host, context.events, prepared.plan.timeout)
    image = gatherer.image(prepared)
    folders = gatherer.folders(list(prepared.scenarios.values()), image)
    if not prepared.load:
        return Materials(image, folders)
    theirs = ImageCache(lease.paths.cache).from_recipe(prepared.load.image, tell=context.events.tell)
    return Materials(image, folders, LoadMaterials(prepared.load, theirs, gatherer.folders([prepared.load], theirs)))
