"""From a request to finished sessions on the machines of a fleet."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace

from kit import __version__
from kit.core.errors import RunError, UsageError
from kit.core.listing import listed
from kit.core.paths import Paths
from kit.fleet.address import Address
from kit.fleet.client import fleet_at
from kit.fleet.dispatch import Dispatch
from kit.fleet.each import EachCourse
from kit.fleet.files import allow_many_files
from kit.fleet.merge import member_facts
from kit.fleet.split import SplitCourse
from kit.fleet.watcher import Watcher
from kit.host.machine import Host, read_host
from kit.model.drivers import SYSTEM
from kit.model.fact import WORKER, makers
from kit.model.machine_class import class_of
from kit.model.member import Member, Selection, choose
from kit.model.plan import SHARED_ROUNDS, Plan
from kit.model.session import DONE, FAILED, INTERRUPTED, RUNNING, Request, Session
from kit.session.begun import check_begun, record_begun
from kit.session.freeze import kept_plan
from kit.session.planning import plan_of, with_guest_cores
from kit.session.start import new_session
from kit.store import Outbox, Store

#: Seconds that a scheduler, or the last machine, is waited for when it is lost.
PATIENCE = 600.0
#: Of many machines, or sessions, so many are named where they begin.
_NAMED = 8


@dataclass(frozen=True)
class FleetContext:
    """Where sessions are run, and where their samples come back to."""

    address: Address
    selection: Selection
    paths: Paths
    store: Store
    watcher: Watcher
    patience: float = PATIENCE


def run_split(request: Request, context: FleetContext) -> Session:
    """One session whose blocks like machines share. Raises KitError, KeyboardInterrupt; what was measured until then is
    in the store."""
    _check_split(request)
    request = replace(request, rounds=request.rounds or SHARED_ROUNDS)
    members = _chosen(request, context)
    session, plan = _planned(request, members[0])
    session = session.with_facts(member_facts(members))
    record_begun(context.paths.data, session, context.watcher.tell)
    return _carry_split(session, plan, members, context)


def resume_split(name: str, context: FleetContext) -> Session:
    """Finish a session that was stopped. Raises as run_split does."""
    session = context.store.get(name)
    if session.imported or not WORKER.text(session.facts) or (session.samples and not makers(session.facts)):
        raise UsageError(
            f"session {session.id} is none whose rounds this store's kit has split over machines",
            f"kit compare --resume {session.id} on its machine, or a new one: --split",
        )
    if session.status == DONE:
        context.watcher.tell(f"session {session.id} is done: nothing is left to run")
        return session
    check_begun(context.paths.data, session)
    members = _chosen(session.request, context)
    before = class_of(session.facts)
    if session.samples and any(member.kind != before for member in members):
        raise UsageError(f"session {session.id} ran on machines of the class '{before}'", "pick them: --class, --where")
    return _carry_split(replace(session, status=RUNNING), kept_plan(session), members, context)


def _carry_split(session: Session, plan: Plan, members: tuple[Member, ...], context: FleetContext) -> Session:
    watcher = context.watcher
    with ExitStack() as stack:
        keeper = stack.enter_context(Outbox(session, context.store, context.paths.data, watcher.tell))
        keeper.create(session)
        keeper.set_status(session.id, RUNNING)
        watcher.began(session)
        names = listed([member.name for member in members], _NAMED)
        watcher.tell(f"session {session.id}: {session.title}, on {names}")
        course = SplitCourse(session, plan, members, keeper, watcher)
        watcher.planned(course.left, len(session.samples))
        try:
            Dispatch(context.address, course, watcher.tell, context.patience).run()
        except KeyboardInterrupt:
            keeper.set_status(session.id, INTERRUPTED)
            raise
        except BaseException:
            keeper.set_status(session.id, FAILED)
            raise
        finally:
            course.settle()
        session = course.result()
        keeper.set_status(session.id, session.status)
        if session.status == DONE:
            context.store.keep_outcomes(session)
    return replace(session, status=FAILED) if keeper.lost else session


def _check_split(request: Request) -> None:
    if request.precision is not None or request.budget is not None:
        raise UsageError(
            "--split needs to know its rounds", "--rounds N instead of --precision and --budget, or --each"
        )
    if request.traced:
        raise UsageError("--split shares measured rounds alone", "--each, or calls and profiles on one machine")


class EachInterrupted(KeyboardInterrupt):
    """``sessions``: in the state that they are in then; some may be done."""

    def __init__(self, sessions: tuple[Session, ...]) -> None:
        super().__init__()
        self.sessions = sessions


def run_each(request: Request, context: FleetContext) -> tuple[Session, ...]:
    """A session on every machine. Raises KitError, EachInterrupted; what was measured until then is in the store."""
    members = _chosen(request, context)
    allow_many_files()  # each session has an outbox
    sessions = {}
    for member in members:
        session, _ = _planned(request, member)
        sessions[member.name] = session.with_facts(member_facts([member]))
    watcher = context.watcher
    with ExitStack() as stack:
        keepers = {}
        for name, session in sessions.items():
            keepers[name] = stack.enter_context(Outbox(session, context.store, context.paths.data, watcher.tell))
            keepers[name].create(session)
        course = EachCourse(sessions, keepers, watcher)
        watcher.tell(f"{len(sessions)} sessions: {listed([session.id for session in sessions.values()], _NAMED)}")
        watcher.planned(sum(_runs(kept_plan(session)) for session in sessions.values()), 0)
        interrupted = False
        try:
            Dispatch(context.address, course, watcher.tell, context.patience).run()
        except RunError as error:
            watcher.tell(error.message)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            course.give_up()
        found = tuple(course.results().values())
        for session in found:
            if session.status == DONE:
                context.store.keep_outcomes(session)
    if interrupted:
        raise EachInterrupted(found)
    return found


def _runs(plan: Plan) -> int:
    return len(plan.arms) * len(plan.points) * (plan.rounds + (plan.cache == "warm"))


def _chosen(request: Request, context: FleetContext) -> tuple[Member, ...]:
    """Idle machines first."""
    if request.engine == SYSTEM:
        raise UsageError(
            "a fleet measures with engines of its own", "leave out --engine system, or run kit compare there"
        )
    arms = (
        () if request.guest else plan_of(replace(request, seed=request.seed or 1)).arms
    )  # a guest has its own drivers
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
        raise UsageError(f"several machines are called {', '.join(twice)}", "kit fleet worker --name NAME")
    return chosen


def _planned(request: Request, member: Member) -> tuple[Session, Plan]:
    """As that machine would plan it."""
    host: Host = replace(read_host(), cores=member.cores, root=member.root)
    session, _, plan = new_session(request, with_guest_cores(request, host))
    return session, plan
