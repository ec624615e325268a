"""From a request to finished sessions on the machines of a fleet."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from kit import __version__
from kit.core.errors import RunError, UsageError
from kit.core.listing import listed
from kit.core.paths import Paths
from kit.extra.fleet.address import Address
from kit.extra.fleet.client.client import fleet_at
from kit.extra.fleet.client.dispatch import Dispatch
from kit.extra.fleet.client.each import EachCourse
from kit.extra.fleet.client.merge import member_facts
from kit.extra.fleet.client.observer import FleetObserver
from kit.extra.fleet.client.split import SplitCourse
from kit.extra.fleet.settings import allow_many_files
from kit.host.machine import Host, read_host
from kit.model.drivers import SYSTEM, Docker, common_docker
from kit.model.event import RunsPlanned, SessionStarted, StatusChanged
from kit.model.fact import FLEET, WORKER, Fact, makers
from kit.model.machine import Member, Selection, choose, class_of, shared_machines
from kit.model.plan import SHARED_ROUNDS, Plan, check_reference, default_arms
from kit.model.session import DONE, FAILED, RUNNING, Request, Session
from kit.session.keep import broken_off_recorded, keep
from kit.session.plan.check import check_request
from kit.session.plan.planning import prepare, the_docker, with_guest_cores
from kit.session.plan.series_order import keep_order
from kit.session.setup.resumable import check_begun, record_begun
from kit.session.start import new_session
from kit.store import Outbox, Store

#: Seconds to wait for a lost scheduler, or for the last lost machine.
PATIENCE = 600.0
#: Number of machines, or sessions, that are named at the start.
_NAMED = 8


@dataclass(frozen=True)
class FleetContext:
    """The fleet that runs sessions, and the store of their samples."""

    address: Address
    selection: Selection
    paths: Paths
    store: Store
    observer: FleetObserver
    reference: str = ""  # the arm of the ranking
    keep_order: bool = False  # as in StartOptions

    def fact(self) -> Fact:
        """Return the options that name the fleet and the machines, without what is secret: certificates by their
        directory."""
        address, selection = self.address, self.selection
        words = ["--fleet", address.url.partition("://")[2]]
        words += ["--fleet-tls", str(address.tls)] if address.tls else []
        words += ["--machines", str(selection.count)] if selection.count else []
        words += ["--class", selection.kind] if selection.kind else []
        words += ["--where", ",".join(map(str, selection.where))] if selection.where else []
        return FLEET.fact(shlex.join(words))


def run_split(request: Request, context: FleetContext) -> Session:
    """Run one session whose rounds similar machines share. Raises KitError, KeyboardInterrupt; the samples measured
    until then are in the store."""
    _check_split(request)
    request = replace(request, rounds=request.rounds or SHARED_ROUNDS)
    members = _chosen(request, context)
    request, docker = _with_arms(request, members, context)
    session = _planned(request, members, docker, context).with_facts([context.fact()])
    record_begun(context.paths.data, session, context.observer.tell)
    return _carry_split(session, members, context)


def resume_split(name: str, context: FleetContext) -> Session:
    """Finish a stopped session. Raises the errors of run_split."""
    session = context.store.get(name)
    check_reference(context.reference, session.arms)
    if session.imported or not WORKER.text(session.facts) or (session.samples and not makers(session.facts)):
        raise UsageError(
            f"session {session.id} is not a --split session of this store",
            f"run kit compare --resume {session.id} on its machine, or start a new one with --split",
        )
    check_begun(context.paths.data, session)
    if session.status == DONE:
        context.observer.tell(f"session {session.id} is done: nothing is left to run")
        return session
    before = class_of(session.facts)
    if session.samples and not context.selection.kind:
        context = replace(context, selection=replace(context.selection, kind=before))
    members = _chosen(session.request, context, session.kept_plan())
    if session.samples and any(member.kind != before for member in members):
        raise UsageError(
            f"session {session.id} ran on machines of the class '{before}'", "pick them with --class or --where"
        )
    return _carry_split(replace(session, status=RUNNING).with_facts([context.fact()]), members, context)


def _carry_split(session: Session, members: tuple[Member, ...], context: FleetContext) -> Session:
    observer = context.observer
    with ExitStack() as stack:
        sink = stack.enter_context(Outbox(session, context.store, context.paths.data, observer.tell))
        sink.create(session)
        sink.take(StatusChanged(RUNNING))
        observer.take(SessionStarted(session))
        names = listed([member.name for member in members], _NAMED)
        observer.tell(f"session {session.id}: {session.title}, on {names}")
        policy = SplitCourse(session, session.kept_plan(), members, sink, observer)
        observer.take(RunsPlanned(policy.left, len(session.samples)))
        try:
            with broken_off_recorded(sink):
                Dispatch(context.address, policy, observer.tell, PATIENCE, again=session.resume_command).run()
        finally:
            policy.settle()
        session = policy.result()
        keep(session, sink, context.store)
    return replace(session, status=FAILED) if sink.lost else session


def _check_split(request: Request) -> None:
    if request.precision is not None or request.budget is not None:
        raise UsageError(
            "--split needs a number of rounds",
            "use --rounds N instead of --precision and --budget, or --each",
        )
    if request.traced:
        raise UsageError("--split shares measured rounds only", "use --each, or trace on one machine")


class EachInterrupted(KeyboardInterrupt):
    """``sessions``: in their current state; some may be complete."""

    def __init__(self, sessions: tuple[Session, ...]) -> None:
        super().__init__()
        self.sessions = sessions


def run_each(request: Request, context: FleetContext) -> tuple[Session, ...]:
    """Run a session on every machine. Raises KitError, EachInterrupted; the samples measured until then are in the
    store."""
    members = _chosen(request, context)
    allow_many_files()  # each session has an outbox
    request, docker = _with_arms(request, members, context)
    sessions = {}
    for member in members:
        sessions[member.name] = _planned(request, (member,), docker, context)
    observer = context.observer
    with ExitStack() as stack:
        stores = {}
        for name, session in sessions.items():
            stores[name] = stack.enter_context(Outbox(session, context.store, context.paths.data, observer.tell))
            stores[name].create(session)
        policy = EachCourse(sessions, stores, observer)
        observer.tell(f"{len(sessions)} sessions: {listed([session.id for session in sessions.values()], _NAMED)}")
        observer.take(RunsPlanned(sum(_runs(session.kept_plan()) for session in sessions.values()), 0))
        interrupted = False
        try:
            Dispatch(context.address, policy, observer.tell, PATIENCE).run()
        except RunError as error:
            observer.tell(error.message)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            policy.give_up()
        results = tuple(policy.results().values())
        for session in results:
            if session.status == DONE:
                context.store.keep_outcomes(session)
    if interrupted:
        raise EachInterrupted(results)
    return results


def _runs(plan: Plan) -> int:
    return len(plan.arms) * len(plan.points) * (plan.rounds + (plan.cache == "warm"))


def _chosen(request: Request, context: FleetContext, plan: Plan | None = None) -> tuple[Member, ...]:
    """Return the chosen machines, the idle ones first. ``plan``: that of a session that has begun."""
    if request.engine == SYSTEM:
        raise UsageError(
            "a fleet measures with engines of its own", "leave out --engine system, or run kit compare there"
        )
    requested = (plan or check_request(request, docker=Docker(), here=False).plan).arms
    # A guest has its own drivers, and the default arms follow the machines.
    arms = requested if (plan or request.arms) and not request.guest else ()
    with fleet_at(context.address) as fleet:
        members, busy = fleet.members(), fleet.busy()
    free = sorted(members, key=lambda address: bool(busy.get(address)))
    chosen = choose([members[address] for address in free], context.selection, arms)
    if chosen[0].kit_version != __version__:
        raise UsageError(
            f"the machines have kit {chosen[0].kit_version}, this is {__version__}", "install one version on all"
        )
    names = [member.name for member in chosen]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"several machines are called {', '.join(twice)}", "name them with kit fleet worker --name NAME"
        )
    _tell_shared(chosen, members.values(), context)
    return chosen


def _tell_shared(chosen: Sequence[Member], members: Iterable[Member], context: FleetContext) -> None:
    """Report machines with several workers: only a lock of its own lets a second one take part."""
    names = {member.name for member in chosen}
    for workers in shared_machines(member for member in members if context.selection.fits(member)):
        taking = [name for name in workers if name in names]
        several = f"{listed(list(workers), _NAMED)} are workers of one machine"
        if len(taking) > 1:
            context.observer.tell(f"{several}: they disturb each other, and count as one")
        elif taking:
            context.observer.tell(f"{several}: {taking[0]} alone takes part")


def _with_arms(request: Request, members: Sequence[Member], context: FleetContext) -> tuple[Request, Docker]:
    """Return the request with the default arms, if it names none: those that all machines may run, as far as known. And
    the Docker by which they and the reference are chosen."""
    if request.guest:
        return request, the_docker(request)
    docker = common_docker([member.docker for member in members])
    if request.arms:
        return request, docker
    if "@" not in request.engine and len({member.docker.drivers for member in members}) > 1:
        context.observer.tell(
            f"the machines' Docker differs ({_dockers(members)}): the default arms are those that all can have, with "
            f"{docker.driver} as default driver; pick like machines with --where docker=…, or name --arms"
        )
    arms = default_arms(request.engine, docker, request.cache)
    shared = [str(arm) for arm in arms if not any(member.lacks([arm]) for member in members)]
    return replace(request, arms=tuple(shared)), docker


def _dockers(members: Sequence[Member]) -> str:
    """Return in words which machines have which Docker."""
    names_by_docker: dict[str, list[str]] = {}
    for member in members:
        docker = member.docker
        names_by_docker.setdefault(f"{docker.version} with {docker.driver}" if docker.version else "none", []).append(
            member.name
        )
    return "; ".join(f"{what} on {listed(names, _NAMED)}" for what, names in names_by_docker.items())


def _planned(request: Request, members: tuple[Member, ...], docker: Docker, context: FleetContext) -> Session:
    """Return the session of these machines as the first would plan it. ``docker``: that of all machines."""
    host = _host_of(members[0])
    prepared = prepare(request, with_guest_cores(request, host), docker)
    session = new_session(prepared, context.reference).with_facts(member_facts(members))
    return keep_order(session, prepared, host, context.store) if context.keep_order else session


def _host_of(member: Member) -> Host:
    return replace(read_host(), cores=member.cores, root=member.root)
