"""Decides whether a session's arms are interleaved: whenever that gives the same ratios as sequential runs.

An arm is refused if it shares something that a time slice needs alone, or if its work goes on while it is frozen
(docs/explanation/method.md). The pilot run measures how a workload waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from kit.analysis.runs.paired import LEAST_REACH
from kit.analysis.runs.waiting import MOST_HIDDEN, SHORTEST_RUN, longest_slice, slice_length
from kit.arms.filesystem import Profile
from kit.host.machine import Host
from kit.model.arm import Arm
from kit.model.default import AUTO, OFF
from kit.model.drivers import SYSTEM
from kit.model.fact import NO_SWITCHES, RUN_ORDER, RUN_ORDER_WHY, SLICE, Fact
from kit.model.plan import Plan
from kit.model.sample import SEQUENTIAL, run_order
from kit.model.session import Session
from kit.session.measure.pilot import Pilot
from kit.session.prepared import Prepared

#: Options of an arm with a limit in real time, which goes on while the arm is frozen. Interleaving hides part of the
#: limit's cost.
LIMITS = {
    "cpus": "its CPU quota is refilled in every slice",
    "memory": "with little memory it waits for writes that continue while it is frozen",
}
#: Formats of a workload's report with times by its own clock, which goes on while it is frozen. A task's start is known
#: as well, so its times are corrected.
_CORRECTED = ("buildstats",)


def why_not(prepared: Prepared, host: Host) -> str:
    """Return the first reason against interleaving that is known before anything runs, or ''."""
    return next(_reasons(prepared, host), "")


def _reasons(prepared: Prepared, host: Host) -> Iterator[str]:
    request, scenario = prepared.request, prepared.scenario
    if not host.root:
        yield "only root may freeze control groups"
    for applies, reason in (
        (request.load, "a background load is not frozen with the arms"),
        (request.fresh, "--fresh makes a filesystem for every run"),
        (
            request.precision is not None and request.precision < LEAST_REACH,
            f"--precision {request.precision or 0:.2%} is less than {LEAST_REACH:.2%}, the least that interleaved runs "
            "can reach",
        ),
        (request.device or request.thin_device, "arms on one device would flush each other's data"),
        (
            any(step.report and step.report not in _CORRECTED for step in scenario.phases),
            f"{scenario.name} reports times by a clock of its own, which goes on while it is frozen",
        ),
        (scenario.engine, f"{scenario.name} drives the engine, which is not frozen with its arm"),
        (scenario.registry, f"{scenario.name} pulls from a registry, which is not frozen with its arm"),
    ):
        if applies:
            yield reason
    for arm in prepared.plan.arms:
        yield from _of_arm(arm, prepared.profiles[arm.filesystem])


def _of_arm(arm: Arm, profile: Profile) -> Iterator[str]:
    if arm.engine == SYSTEM or arm.placement == "host":
        yield f"{arm} has no control group of this session"
    for name, why in LIMITS.items():
        if arm.option(name):
            yield f"{arm}: {why}"
    if profile.type in ("dir", "nfs"):
        yield f"arms on @{profile.name} would flush each other's data"
    if profile.write_back:
        yield f"@{profile.name} is copied to its disk by the clock, also while its arm is frozen"


def decide(
    session: Session,
    prepared: Prepared,
    host: Host,
    pilot: Callable[[], Sequence[Pilot]],
) -> tuple[Plan, tuple[Fact, ...]]:
    """Return the plan with the length of its time slices, None for sequential runs, and the facts to record. A resumed
    session keeps its order. ``pilot`` makes the pilot runs, one for each of several commands."""
    plan = prepared.plan
    if RUN_ORDER.text(session.facts):
        began = SLICE.text(session.facts)
        return replace(plan, interleave=float(began.split()[0]) if began else None), ()
    if prepared.request.interleave == OFF:
        return plan, (RUN_ORDER.fact(SEQUENTIAL),)
    if plan.interleave is not None:
        return plan, _facts(plan.interleave, "as asked")
    reason = not_worth(plan) or why_not(prepared, host)
    seconds = None
    if not reason:
        seconds, reason = _by_pilots(pilot())
    return replace(plan, interleave=seconds), _facts(seconds, reason)


def undecided(session: Session) -> bool:
    """Return whether a machine will choose the run order from its findings."""
    return session.request.interleave == AUTO and len(session.arms) > 1 and not RUN_ORDER.text(session.facts)


def ordered_as(session: Session, facts: Mapping[str, str]) -> Session:
    """Return the session with the run order that ``facts`` of another machine name, if any. A machine that decided
    before, unheard, then follows the others."""
    if not RUN_ORDER.text(facts):
        return session
    keys = {kind.key for kind in (RUN_ORDER, SLICE, RUN_ORDER_WHY, NO_SWITCHES)}
    other_facts = {key: text for key, text in session.facts.items() if key not in keys}
    return replace(session, facts={**other_facts, **{key: text for key, text in facts.items() if key in keys}})


def not_worth(plan: Plan) -> str:
    """Return why a pilot run would be useless, or ''."""
    if len(plan.arms) < 2:
        return "one arm alone cannot be interleaved"
    return "one round has no interval" if plan.rounds == 1 and not plan.open_ended else ""


def _facts(seconds: float | None, why: str) -> tuple[Fact, ...]:
    length = () if seconds is None else (SLICE.fact(f"{seconds:g} s"),)
    lacking = () if seconds is None else (NO_SWITCHES.fact("each freeze and thaw of an interleaved arm adds to them"),)
    return (RUN_ORDER.fact(run_order(seconds)), *length, RUN_ORDER_WHY.fact(why), *lacking)


def _by_pilots(trials: Sequence[Pilot]) -> tuple[float | None, str]:
    """Return the length of a slice that suits all, None for sequential runs, and the reason: that of the run of which
    slices hide most."""
    if not trials:
        return None, "no arm could make a pilot run"
    for trial in trials:
        if trial.error:
            return None, f"the pilot run of {trial.arm} failed"
        if trial.fails_frozen:
            return None, "the workload fails if it is frozen, and not otherwise: freezing ends some waits with EINTR"
        if trial.seconds < SHORTEST_RUN:
            return None, f"a run takes {trial.seconds:.2g} s, too short for time slices"
    length = slice_length(*((trial.seconds, trial.waiting) for trial in trials))
    tried = longest_slice(min(trial.seconds for trial in trials)) if length is None else length
    worst = max(trials, key=lambda trial: trial.waiting.hidden(tried))
    hidden, waits = worst.waiting.hidden(tried), f"waits {worst.waiting.share:.1%} of its time for a clock, a network"
    waits += " or other processes"
    if length is None:
        return (
            None,
            f"the workload {waits}: slices would hide {hidden:.1%} at most, {MOST_HIDDEN:.1%} are allowed",
        )
    takes = f"takes {'at least ' if worst.ended else ''}{worst.seconds:.3g} s"
    return length, f"a run {takes} and {waits}, of which slices hide {hidden:.2%} of a run at most"
