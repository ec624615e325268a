"""A session from its plan to its outcome in the store: ``launch`` lists the steps, and ``measure`` those on the machine
that runs the workload."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kit.arms.filesystem.device import check_devices
from kit.core.errors import UnavailableError
from kit.core.paths import Paths
from kit.extensions import EXTRAS
from kit.host.cgroup.idle import wait_idle
from kit.host.interrupt import interruptible
from kit.model.event import EventSink, FactsKnown, Relay, SessionStarted
from kit.model.plan import Plan
from kit.model.session import DONE, FAILED, NotRun, Session
from kit.session.execute.arms import NoArmsError, prepare_arms
from kit.session.execute.materials import Materials, equipped, gather
from kit.session.execute.session_loop import held_machine, run_rounds
from kit.session.keep import broken_off_recorded, keep
from kit.session.measure.context import MachineLease, RunContext
from kit.session.prepared import SessionContext, StartOptions
from kit.session.start import PlannedSession, SessionRequest, plan_session
from kit.store import Outbox

if TYPE_CHECKING:
    from kit.store import Store


def launch(
    request: SessionRequest, paths: Paths, store: Store, observer: EventSink, options: StartOptions
) -> Session:  # fmt: skip
    """Run a session: a new one, the missing runs of a stopped one, or the rounds that another machine assigns. Raises
    KitError, KeyboardInterrupt; the samples measured until then are in the store."""
    planned = plan_session(request, paths, store, observer, options)
    if isinstance(planned, Session):
        return planned  # complete
    with ExitStack() as stack:
        lease = stack.enter_context(_quiet_machine(planned, paths, observer, options))
        outbox = stack.enter_context(Outbox(planned.session, store, paths.data, observer.tell))
        session = planned.begin(outbox)
        if session.status == DONE:  # another start has finished it while this one waited
            return session
        context = SessionContext(planned.prepared, planned.host, paths, Relay(outbox, observer), options)
        _announce(session, context)
        with broken_off_recorded(outbox):
            lease = equipped(lease, session.request.docker, session.request.thin_device)
            try:
                with interruptible():
                    materials = gather(context, lease)
            except UnavailableError as error:
                session = _without_arms(session, context, error)
            else:
                run = planned.place.visit if planned.place else measure
                session = run(session, context, lease, materials)
        keep(session, outbox, store)
    return replace(session, status=FAILED) if outbox.lost else session


def measure(session: Session, context: SessionContext, lease: MachineLease, materials: Materials) -> Session:
    """Prepare the arms, run the rounds and trace them: on this machine, or in a guest, whose agent calls this. Return
    the session in its final state. Raises KitError, KeyboardInterrupt."""
    began = time.monotonic()  # of the budget: one-time builds and downloads do not count
    with ExitStack() as stack:
        try:
            session, run = prepare_arms(session, context, lease, materials, stack)
        except NoArmsError as error:
            return error.session
        session = run_rounds(session, run, partial(_time_left, run.plan, began))
        return _trace(session, run) if session.request.traced and session.status == DONE else session


def _time_left(plan: Plan, began: float) -> float | None:
    """Return the remaining seconds of the budget, counted from a time.monotonic()."""
    return None if plan.limit is None else plan.limit - (time.monotonic() - began)


@contextmanager
def _quiet_machine(
    planned: PlannedSession, paths: Paths, observer: EventSink, options: StartOptions
) -> Iterator[MachineLease]:
    """Hold the machine for the session, as soon as it is free, and quiet if the user waits for that."""
    session = planned.session
    with held_machine(session.id, paths, options.wait, observer) as lease:
        if options.idle is not None:
            wait_idle(options.idle, observer.tell)
        check_devices(session.request, options.wipe, session)  # again: it may have waited for hours
        yield lease


def _announce(session: Session, context: SessionContext) -> None:
    context.events.take(SessionStarted(session))
    image = f", image {context.prepared.image}" if session.request.own_command and context.prepared.image else ""
    context.events.tell(f"session {session.id}: {session.title}{image}")


def _without_arms(session: Session, context: SessionContext, error: UnavailableError) -> Session:
    """Return the session as failed: no arm runs without its image and inputs."""
    not_run = tuple(NotRun(str(arm), error.message, error.hint) for arm in context.prepared.plan.arms)
    session = replace(session, not_run=not_run, status=FAILED)
    context.events.take(FactsKnown.of(session))
    return session


def _trace(session: Session, run: RunContext) -> Session:
    """Run the traced rounds, which explain the measured ones. Raises KeyboardInterrupt, KitError."""
    for extra in EXTRAS:
        if extra.traced_rounds:
            traced: Session = extra.load(extra.traced_rounds)(session, run)
            return traced
    run.events.tell("not traced: this kit has no tracers")
    return session
