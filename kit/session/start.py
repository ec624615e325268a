"""From a request to a finished session: finds scenario, image and inputs, makes arms ready, runs the plan."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kit import __version__
from kit.core.errors import KitError, MachineError, UnavailableError, UsageError
from kit.core.paths import Paths
from kit.host.idle import wait_idle
from kit.host.interrupt import interruptible
from kit.host.machine import Host, read_host
from kit.image import ImageCache
from kit.model.drivers import SYSTEM
from kit.model.estimate import how_long, round_seconds
from kit.model.fact import HOST_KERNEL, KERNEL, MACHINE, WORKER
from kit.model.plan import Plan
from kit.model.sample import TRACED
from kit.model.scenario import Scenario
from kit.model.session import DONE, FAILED, INTERRUPTED, RUNNING, NotRun, Request, Session, new_session_id, title_of
from kit.session.begun import check_begun, record_begun
from kit.session.channel import Channel, Relayed
from kit.session.consent import check_devices, device_facts
from kit.session.context import Bench, Observer
from kit.session.freeze import kept_plan
from kit.session.gather import Gatherer
from kit.session.local import LoadMaterials, Materials, SessionContext, check_kernel, equipped, perform
from kit.session.loop import held_machine
from kit.session.planning import bind_load, bind_scenarios, plan_session
from kit.store import Outbox, Wanted

if TYPE_CHECKING:
    from kit.guest import Machine
    from kit.store import Store


@dataclass(frozen=True)
class Patience:
    """What a session waits for before it begins: ``wait``: that another ends, instead of refusing; ``idle``: that
    nothing works on the machine, so many seconds at most, None for not at all."""

    wait: bool = False
    idle: float | None = None


def launch(
    request: Request,
    paths: Paths,
    store: Store,
    observer: Observer,
    patience: Patience,
    wipe: Collection[Path] = (),
) -> Session:
    """Run a new session. ``wipe``: devices of it that are given up, with all that is on them. Raises KitError,
    KeyboardInterrupt; what was measured until then is in the store."""
    request, machine, host = _where(request, paths, observer, read_host())
    session, scenarios, plan = new_session(request, host)
    # Needed before the rest is known: a session may stop at once, and be resumed.
    session = session.with_facts([MACHINE.fact(host.machine), *device_facts(session.request)])
    check_devices(session, wipe)
    last = _last_alike(session, store)
    not_run = {item.arm for item in last.not_run} if last else set()
    able = sum(str(arm) not in not_run for arm in plan.arms)
    observer.tell(how_long(plan, round_seconds(last.samples) if last else None, able))

    def begin(keeper: Outbox) -> Session:
        record_begun(paths.data, session, observer.tell)
        keeper.create(session)
        return session

    context = SessionContext(plan, scenarios, host, paths, store, observer, tuple(wipe))
    return _carry_out(session, context, store, patience, begin, machine)


def new_session(request: Request, host: Host) -> tuple[Session, dict[str, Scenario], Plan]:
    """A session that has not begun, for such a host; with its scenarios by the sweep's points, and its plan. Raises
    UsageError, MachineError."""
    now = time.time()
    request = replace(request, seed=request.seed or secrets.randbelow(10**9) + 1)
    request, scenarios, plan = plan_session(request, host)
    session = Session(
        id=new_session_id(now),
        created=now,
        kit_version=__version__,
        title=title_of(request, next(iter(scenarios.values())).label),
        status=RUNNING,
        request=request,
        arms=tuple(map(str, plan.arms)),
        baselines=plan.baselines,
        seed=plan.seed,
    )
    return session, scenarios, plan


def _last_alike(session: Session, store: Store) -> Session | None:
    """The last session of that title that was finished on this machine; None where it can't be read, which is no reason
    not to begin another."""
    with suppress(KitError):
        for head in store.list(Wanted(session.title, machine=MACHINE.text(session.facts), status=DONE), most=1):
            return store.get(head.id)
    return None


def resume(
    name: str,
    paths: Paths,
    store: Store,
    observer: Observer,
    patience: Patience,
    wipe: Collection[Path] = (),
    budget: float | None = None,
) -> Session:
    """Finish the plan of a session that was begun here and stopped: same seed, same order, what is missing. A session
    that is done is returned as it is, unless ``budget`` gives seconds more to one whose number of rounds is open.
    ``wipe``, ``budget``: for this start alone. Raises UsageError."""
    begun = store.get(name)
    _check_own(begun, read_host())
    request = replace(begun.request, budget=begun.request.budget if budget is None else budget)
    session = replace(begun, request=request)
    plan = kept_plan(session)
    goes_on = budget is not None and plan.until_decided and not any(item.kind == TRACED for item in session.samples)
    if session.status == DONE and not goes_on:
        observer.tell(f"session {session.id} is done: nothing is left to run")
        return session
    check_begun(paths.data, begun)
    _, machine, host = _where(session.request, paths, observer, read_host())
    check_kernel(session, HOST_KERNEL if machine else KERNEL, host.kernel)
    scenarios = bind_scenarios(session.request, host)
    check_devices(session, wipe)

    def begin(keeper: Outbox) -> Session:
        found = store.get(session.id)  # another start may have gone on with it while this one waited
        if found.status != DONE or goes_on:
            keeper.set_status(session.id, RUNNING)
            found = replace(found, status=RUNNING)
        # Of what the store says by now only what came of the session: what is run was checked.
        return replace(session, status=found.status, facts=found.facts, not_run=found.not_run, samples=found.samples)

    context = SessionContext(plan, scenarios, host, paths, store, observer, tuple(wipe))
    return _carry_out(session, context, store, patience, begin, machine)


def take_up(session: Session, blocks: tuple[int, ...], paths: Paths, store: Store, channel: Channel) -> Session:
    """Run what another machine has planned: of a session's blocks these, all where none is named. What of them this
    machine has done already is not done again. ``channel`` hears all that the store is told. Raises as ``launch``
    does."""
    _, machine, host = _where(session.request, paths, channel, read_host())
    plan = replace(kept_plan(session), blocks=blocks)
    scenarios = bind_scenarios(session.request, host)
    check_devices(session, ())

    def begin(keeper: Outbox) -> Session:
        try:
            found = store.get(session.id)
        except UsageError:
            keeper.create(session)
            return session
        if found.status != DONE or blocks:
            keeper.set_status(session.id, RUNNING)
            found = replace(found, status=RUNNING)
        return found

    context = SessionContext(plan, scenarios, host, paths, store, channel)
    return _carry_out(session, context, store, Patience(wait=True), begin, machine, channel)


def _check_own(session: Session, host: Host) -> None:
    """Whose commands a session would run: only what was asked for here, by the user of this store, is run again.
    Raises UsageError."""
    if session.imported:
        raise UsageError(
            f"session {session.id} was imported, or begun by a kit before 0.6",
            "only sessions that this store's kit began are resumed: start a new one, kit compare",
        )
    if WORKER.text(session.facts):
        raise UsageError(f"session {session.id} is a fleet's", f"kit compare --resume {session.id} --fleet SCHEDULER")
    if MACHINE.text(session.facts) != host.machine:
        raise UsageError(f"session {session.id} began on another machine", "resume it there, or start a new one")


def _where(request: Request, paths: Paths, observer: Observer, host: Host) -> tuple[Request, Machine | None, Host]:
    """The guest in which the session will run, None where it is this machine; the request that names it, and the
    host as the workload will find it. Raises UsageError, MachineError."""
    if not request.guest:
        return request, None, host
    from kit.guest import Tools, make_machine

    if not host.root:
        raise MachineError("a guest needs root: its disks hold whole root filesystems", "sudo kit …")
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


def _carry_out(
    session: Session,
    context: SessionContext,
    store: Store,
    patience: Patience,
    begin: Callable[[Outbox], Session],
    machine: Machine | None,
    channel: Channel | None = None,
) -> Session:
    """Hold the machine and run what is left of the session; whatever ends it, its state is in the store. ``begin``:
    has it in the store as running, and gives it with all samples that it has by then. ``channel`` hears all that the
    store is told."""
    with ExitStack() as stack:
        bench = stack.enter_context(held_machine(session.id, context.paths, patience.wait, context.observer))
        if patience.idle is not None:
            wait_idle(patience.idle, context.observer.tell)
        check_devices(session, context.wipe)  # again: it may have waited for hours
        keeper = stack.enter_context(Outbox(session, store, context.paths.data, context.observer.tell))
        context = replace(context, store=Relayed(keeper, channel) if channel else keeper)
        session = begin(keeper)
        if session.status == DONE:
            return session
        context.observer.began(session)
        context.observer.tell(f"session {session.id}: {session.title}")
        try:
            session = _perform(session, context, equipped(bench, session.request), machine)
        except KeyboardInterrupt:
            keeper.set_status(session.id, INTERRUPTED)
            raise
        except BaseException:
            keeper.set_status(session.id, FAILED)
            raise
        keeper.set_status(session.id, session.status)
        if session.status == DONE:
            store.keep_outcomes(session)
    return replace(session, status=FAILED) if keeper.lost else session


def _perform(session: Session, context: SessionContext, bench: Bench, machine: Machine | None) -> Session:
    if machine:
        from kit.guest import Tools
        from kit.session.guest_kernel import with_kernel

        tools = Tools(bench.paths.cache, context.observer.tell)
        with interruptible():
            machine = with_kernel(machine, session, context.plan.arms, tools)
    try:
        with interruptible():
            materials = _gather(session.request, context, bench)
    except UnavailableError as error:
        not_run = tuple(NotRun(str(arm), error.message, error.hint) for arm in context.plan.arms)
        session = replace(session, not_run=not_run, status=FAILED)
        context.store.update(session)
        return session
    if machine is None:
        return perform(session, context, bench, materials)
    from kit.session.guest_host import visit

    return visit(session, context, bench, materials, machine)


def _gather(request: Request, context: SessionContext, bench: Bench) -> Materials:
    """Find, build or fetch image and inputs, those of the background load too. Raises what Gatherer does."""
    gatherer = Gatherer(bench, context.host, context.observer, request.timeout)
    image = gatherer.image(request, context.scenario, context.plan.arms)
    folders = gatherer.folders(list(context.scenarios.values()), image)
    if not request.load:
        return Materials(image, folders)
    scenario = bind_load(request, context.host)
    theirs = ImageCache(bench.paths.cache).from_recipe(scenario.image, tell=context.observer.tell)
    return Materials(image, folders, LoadMaterials(scenario, theirs, gatherer.folders([scenario], theirs)))
