"""Traced rounds: after the measured ones, all arms in random order again, with tracers around their phases. What they
record explains where time goes; none of it is a measurement."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace

from kit.host.rest import IdleRate
from kit.model.fact import NO_TRACING, TRACING
from kit.model.plan import TRACED_ROUNDS, PlanStep
from kit.model.sample import TRACED
from kit.model.session import Session
from kit.session.context import RunContext
from kit.session.loop import Pace, run_block
from kit.session.schedule import Block
from kit.trace.calls import find_call_tracer
from kit.trace.copy_ups import CopyUpTracer
from kit.trace.functions import find_functions
from kit.trace.perf import find_perf_tracer
from kit.trace.tracer import Level, Tracer

#: What else the machine does while it is traced, tracers among it, is no figure.
_NOT_WATCHED = IdleRate(0.0, math.inf)


def find_tracers(session: Session, run: RunContext) -> tuple[tuple[Tracer, ...], tuple[Level, ...]]:
    """Those that were asked for and work here, and what of them can be recorded here, or why not."""
    scratch, wanted = run.bench.setting.run, session.request
    tracers: list[Tracer] = []
    levels = []
    if wanted.explain_calls:
        functions, probed = find_functions(scratch, run.group)
        calls, level = find_call_tracer(scratch, run.group, functions)
        tracers += [CopyUpTracer(), calls] if calls else []
        levels += [level, probed] if calls and probed.works else [level]
    if wanted.profile:
        perf, level = find_perf_tracer(scratch, _most_cpu(session))
        tracers += [perf] if perf else []
        levels.append(level)
    return tuple(tracers), tuple(levels)


def _most_cpu(session: Session) -> float:
    """Seconds of CPU that a phase can have taken at most."""
    reals = (phase.real or 0.0 for sample in session.samples for phase in sample.phases)
    return max(reals, default=0.0) * (os.cpu_count() or 1)


def traced_rounds(session: Session, run: RunContext) -> Session:
    """What is left of them, each sample stored when it exists; the session as before, and why, where nothing can be
    traced here. Raises KeyboardInterrupt, KitError."""
    tracers, levels = find_tracers(session, run)
    tell = run.observer.tell
    lacking = "; ".join(f"{level.reason} (fix: {level.fix})" for level in levels if not level.works)
    facts = [NO_TRACING.fact(lacking)] if lacking else []
    if lacking:
        tell(f"not traced: {lacking}")
    if tracers:
        names = ", ".join(f"{level.name} by {level.reason}" for level in levels if level.works)
        facts.append(TRACING.fact(f"{names}: {TRACED_ROUNDS} rounds after the measured ones"))
    session = session.with_facts(facts)
    run.store.update(session)
    run = replace(run, plan=replace(run.plan, interleave=None), tracers=tracers)  # one after the other
    pace, samples = Pace(lambda: None), list(session.samples)
    for number in range(1, TRACED_ROUNDS + 1) if tracers else ():
        steps = _left(session, run.plan.traced_block(number))
        if not steps:
            continue
        run.observer.extended(len(steps), f"traced round {number} of {TRACED_ROUNDS}")
        run.places.sync()
        made = list(run_block(session, Block(number, steps), run, _NOT_WATCHED, pace))
        samples += made
        if all(sample.status != "ok" for sample in made):
            tell("every traced run failed: the rest of them is left undone")
            break
    return replace(session, samples=tuple(samples))


def _left(session: Session, block: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
    done = {(item.block, item.arm, item.point) for item in session.samples if item.kind == TRACED}
    not_run = {item.arm for item in session.not_run}
    wanted = (step for step in block if str(step.arm) not in not_run)
    return tuple(step for step in wanted if (step.block, str(step.arm), step.point) not in done)
