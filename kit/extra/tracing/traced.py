"""Traced rounds: after the measured ones, all arms run again in random order, with tracers around their phases. The
recordings explain where time goes; they are not measurements."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from kit.extra.tracing.calls import find_call_tracer
from kit.extra.tracing.copy_ups import CopyUpTracer
from kit.extra.tracing.functions import find_functions
from kit.extra.tracing.perf import find_perf_tracer
from kit.host.cgroup.idle_load import NOT_WATCHED
from kit.model.event import FactsKnown, RunsAdded
from kit.model.fact import NO_TRACING, TRACING
from kit.model.plan import TRACED_ROUNDS, PlanStep
from kit.model.sample import TRACED
from kit.model.session import Session
from kit.session.execute.session_loop import RunTiming, run_round
from kit.session.measure.context import RunContext
from kit.session.measure.tracer import Level, Tracer
from kit.session.plan.schedule import Round, find_failing


def find_tracers(session: Session, run: RunContext) -> tuple[tuple[Tracer, ...], tuple[Level, ...]]:
    """The requested tracers that work here, with what they can record, or the reason why not."""
    scratch, request = run.lease.scratch, session.request
    tracers: list[Tracer] = []
    levels = []
    if request.explain_calls:
        functions, probed = find_functions(scratch, run.group)
        calls, level = find_call_tracer(scratch, run.group, functions)
        tracers += [CopyUpTracer(), calls] if calls else []
        levels += [level, probed] if calls and probed.works else [level]
    if request.profile:
        perf, level = find_perf_tracer(scratch, _most_cpu(session))
        tracers += [perf] if perf else []
        levels.append(level)
    return tuple(tracers), tuple(levels)


def _most_cpu(session: Session) -> float:
    """Return an upper bound of a phase's seconds of CPU."""
    reals = (phase.real or 0.0 for sample in session.samples for phase in sample.phases)
    return max(reals, default=0.0) * (os.cpu_count() or 1)


def traced_rounds(session: Session, run: RunContext) -> Session:
    """Run the remaining traced rounds and store each sample. Returns the session as before, and the reason if nothing
    can be traced here. Raises KeyboardInterrupt, KitError."""
    tracers, levels = find_tracers(session, run)
    tell = run.events.tell
    lacking = "; ".join(f"{level.reason} (fix: {level.fix})" for level in levels if not level.works)
    facts = [NO_TRACING.fact(lacking)] if lacking else []
    if lacking:
        tell(f"not traced: {lacking}")
    if tracers:
        names = ", ".join(f"{level.name} by {level.reason}" for level in levels if level.works)
        facts.append(TRACING.fact(f"{names}: {TRACED_ROUNDS} rounds after the measured ones"))
    session = session.with_facts(facts)
    run.events.take(FactsKnown.of(session))
    run = replace(run, plan=replace(run.plan, interleave=None), tracers=tracers)  # one after the other
    timing, samples = RunTiming(lambda: None), list(session.samples)
    for number in range(1, TRACED_ROUNDS + 1) if tracers else ():
        steps = _left(session, run.plan.traced_round(number))
        if not steps:
            continue
        run.events.take(RunsAdded(len(steps), f"traced round {number} of {TRACED_ROUNDS}"))
        run.places.sync()
        runs = list(run_round(Round(number, steps), run, NOT_WATCHED, timing))
        samples += runs
        if all(sample.status != "ok" for sample in runs):
            tell("every traced run failed: the rest of them is skipped")
            break
    return replace(session, samples=tuple(samples))


def _left(session: Session, round_: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
    traced = {(sample.round, sample.arm, sample.point) for sample in session.samples if sample.kind == TRACED}
    not_run, failing = {blocked.arm for blocked in session.not_run}, find_failing(session.samples)
    possible = (step for step in round_ if str(step.arm) not in not_run and (str(step.arm), step.point) not in failing)
    return tuple(step for step in possible if (step.round, str(step.arm), step.point) not in traced)
