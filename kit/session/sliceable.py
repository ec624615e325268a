"""Whether the arms of a session run by turns: where they may, and where it is worth it.

What is refused here either shares what a turn must have for itself, or is not proved to give the same ratios
(docs/method.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kit.analysis.paired import LEAST_REACH
from kit.analysis.speed import RUN
from kit.filesystem import Profile
from kit.host.machine import Host
from kit.model.arm import Arm, driver_of
from kit.model.drivers import SYSTEM
from kit.model.fact import SLICES, SLICES_WHY, Fact
from kit.model.plan import AUTO, DEFAULT_SLICES, Plan
from kit.model.sample import WHOLE, shown_slices
from kit.model.scenario import Scenario
from kit.model.session import Request, Session
from kit.session.context import Bench
from kit.session.steadiness import SECONDS, watch_speed

#: Scenarios of which runs by turns gave the ratios of whole runs: ``auto`` takes turns in no others.
PROVEN = ("kernel:short",)
#: Options of an arm whose limit is of real time, which goes on while it stands still: what the limit costs is less by
#: turns than it is.
LIMITS = {
    "cpus": "what it may use of the CPU in a tenth of a second is given to it anew in each turn",
    "memory": "what keeps it waiting, with little memory, is written to the disk while it stands still",
}


def why_not(
    request: Request, arms: Iterable[Arm], scenario: Scenario, profiles: Mapping[str, Profile], host: Host
) -> str:
    """The first reason against it, or ''."""
    return next(_reasons(request, arms, scenario, profiles, host), "")


def _reasons(
    request: Request, arms: Iterable[Arm], scenario: Scenario, profiles: Mapping[str, Profile], host: Host
) -> Iterator[str]:
    if not host.root:
        yield "control groups are frozen by root alone"
    for asked, reason in (
        (request.load, "a background load does not stand still while arms change"),
        (request.fresh, "--fresh makes a filesystem for every run, one after the other"),
        (request.guest, "in a guest it is not tried yet"),
        (request.traced, "--explain-calls and --profile explain whole runs, in rounds of such"),
        (
            request.precision is not None and request.precision < LEAST_REACH,
            f"--precision {request.precision or 0:.2%} is less than {LEAST_REACH:.2%}, the least that turns can reach",
        ),
        (request.device or request.thin_device, "arms on one device would flush each other's data"),
        (
            any(step.report for step in scenario.phases),
            f"{scenario.name} reports figures by a clock of its own, which goes on while it stands still",
        ),
        (scenario.engine, f"{scenario.name} drives the engine, which does not stand still with its arm"),
    ):
        if asked:
            yield reason
    for arm in arms:
        yield from _of_arm(arm, profiles[arm.filesystem])


def _of_arm(arm: Arm, profile: Profile) -> Iterator[str]:
    if arm.engine == SYSTEM or arm.placement == "host":
        yield f"{arm} has no control group of the session's"
    for name, why in LIMITS.items():
        if arm.option(name):
            yield f"{arm}: {why}"
    part = driver_of(arm).kernel
    if part and part.listed == "fuse":
        yield f"{arm} has a daemon that does not stand still with it, and what that does was not tried"
    if profile.type in ("dir", "nfs"):
        yield f"arms on @{profile.name} would flush each other's data"
    if profile.write_back:
        yield f"@{profile.name} is copied to its disk by the clock, whosever turn it is"


def decide(
    session: Session,
    plan: Plan,
    scenario: Scenario,
    profiles: Mapping[str, Profile],
    host: Host,
    bench: Bench,
) -> tuple[Plan, tuple[Fact, ...]]:
    """The plan with the turns that its session has, and what is recorded of that. A resumed session goes on as it
    began."""
    began = SLICES.text(session.facts)
    if began:
        return replace(plan, slices=None if began == WHOLE else float(began.split()[0])), ()
    if session.request.slices != AUTO:
        said = _as_asked(session, plan, scenario, profiles, host)
        return plan, (SLICES.fact(shown_slices(plan.slices)), *([SLICES_WHY.fact(said)] if said else ()))
    reason = why_not(session.request, plan.arms, scenario, profiles, host) or _unproven(scenario)
    slices = None
    if not reason:
        bench.setting.tell(f"watching for {SECONDS:.0f} s how steady this machine's speed is")
        found = watch_speed(host.cores, DEFAULT_SLICES)
        slices = DEFAULT_SLICES if found.noisy else None
        reason = (
            f"two runs of {RUN:.0f} s one after the other differ by {found.whole:.1%} here, by turns of "
            f"{DEFAULT_SLICES:g} s by {found.sliced:.1%}"
        )
    way = f"arms run {_way(slices)}: {reason}"
    bench.setting.tell(way)
    return replace(plan, slices=slices), (SLICES.fact(shown_slices(slices)), SLICES_WHY.fact(way))


def _as_asked(session: Session, plan: Plan, scenario: Scenario, profiles: Mapping[str, Profile], host: Host) -> str:
    """What is to be said of the way that was asked for: what is not proved of turns; that they are to be had."""
    unproven = _unproven(scenario)
    if plan.slices is not None:
        return unproven
    if unproven or why_not(session.request, plan.arms, scenario, profiles, host):
        return ""
    return f"arms run {_way(None)}; with --slices auto by turns where this machine's speed changes within seconds"


def _unproven(scenario: Scenario) -> str:
    if scenario.label in PROVEN:
        return ""
    return f"that turns give the ratios of whole runs was tried with {', '.join(PROVEN)} alone"


def _way(slices: float | None) -> str:
    return "one after the other" if slices is None else f"by turns of {slices:g} s"
