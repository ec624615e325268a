"""A session whose inputs are at hand: makes arms ready, runs the plan. On this machine, or in a guest."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kit.core.errors import RunError, UsageError
from kit.core.paths import Paths
from kit.engines.root import given_programs
from kit.filesystem import BackingOptions
from kit.filesystem.backing import DEFAULT_SIZE
from kit.host.cgroup import Cgroup
from kit.host.machine import Host
from kit.image import Image
from kit.model.arm import Arm
from kit.model.fact import COMPILER, LOAD, Fact, Kind
from kit.model.plan import Plan
from kit.model.scenario import Scenario
from kit.model.session import DONE, FAILED, NotRun, Request, Session
from kit.session.background import Load
from kit.session.context import Bench, Keeper, Observer, RunContext
from kit.session.facts import session_facts
from kit.session.gather import Folders, shown, workloads
from kit.session.interleave_policy import decide
from kit.session.loop import run_session
from kit.session.pilot import Pilot, pilot_run
from kit.session.planning import profiles
from kit.session.provision import LoadSpec, Provision, ProvisionSpec
from kit.session.traced import traced_rounds
from kit.session.workload import Workload


@dataclass(frozen=True)
class SessionContext:
    """What new and resumed sessions have in common, on this machine or in a guest."""

    plan: Plan
    scenarios: Mapping[str, Scenario]  # by point
    host: Host
    paths: Paths
    store: Keeper
    observer: Observer
    wipe: tuple[Path, ...] = ()  # devices that the user gives up in this start

    @property
    def scenario(self) -> Scenario:
        """That of the first point; image and steps' names are the same in all."""
        return next(iter(self.scenarios.values()))

    def left(self, began: float) -> float | None:
        """Seconds of the budget that remain, counted from a time.monotonic()."""
        return None if self.plan.limit is None else self.plan.limit - (time.monotonic() - began)


@dataclass(frozen=True)
class Materials:
    """What a session's workload is given. ``load``: that of the background load, where there is one."""

    image: Image | None
    folders: Folders
    load: LoadMaterials | None = None


@dataclass(frozen=True)
class LoadMaterials:
    scenario: Scenario
    image: Image
    folders: Folders


def perform(session: Session, context: SessionContext, bench: Bench, materials: Materials) -> Session:
    """Make ready, measure, and return the session in its final state. Raises KitError, KeyboardInterrupt."""
    began = time.monotonic()  # of the budget: what is built or fetched once per machine does not count
    image, folders = materials.image, materials.folders
    with ExitStack() as stack:
        directory = stack.enter_context(shown(folders, bench, "of"))
        beside = _load_spec(materials.load, bench, stack) if materials.load else None
        options = backing_options(session.request, context)
        spec = ProvisionSpec(bench.setting, context.host, options, image, directory)
        made = workloads(context.scenarios, image, folders)
        pilot = partial(_pilot, context, spec, made, bench)
        used = profiles(session.request)
        plan, facts = decide(session, context.plan, context.scenario, used, context.host, pilot)
        context, session = replace(context, plan=plan), session.with_facts(facts)
        spec = replace(spec, apart=plan.interleave is not None)
        provision = stack.enter_context(Provision(spec, beside and beside[1]))
        not_run = _make_ready(provision, context, bench)
        found = [*session_facts(context.host, context.plan, context.scenarios, image), *provision.facts()]
        found += _compilers(provision, context.plan.arms, {item.arm for item in not_run})
        if beside:
            values = ", ".join(f"{name}={value}" for name, value in beside[0].scenario.values)
            found.append(LOAD.fact(f"{beside[0].scenario.label}, {values or 'no parameters'}"))
        session = replace(session.with_facts(found), not_run=not_run)
        context.store.update(session)
        if len(not_run) == len(context.plan.arms):
            return replace(session, status=FAILED)
        provision.sync()
        load = _load(beside[0], beside[1], provision, bench, context.plan.timeout) if beside else None
        run = RunContext(context.plan, made, provision, context.store, bench, context.observer, load)
        session = run_session(session, run, lambda: context.left(began))
        traced = session.request.traced and session.status == DONE
        return traced_rounds(session, run) if traced else session


def _pilot(context: SessionContext, spec: ProvisionSpec, made: Mapping[str, Workload], bench: Bench) -> Pilot | None:
    """Make the pilot run, and tell what it showed."""
    bench.setting.tell("pilot run: how long a run takes, and whether the workload waits for a clock or a network")
    with Provision(spec) as provision:
        run = RunContext(context.plan, made, provision, context.store, bench, context.observer)
        return pilot_run(run)


def check_kernel(session: Session, kind: Kind, kernel: str) -> None:
    """Runs on two kernels are not one session's. Raises UsageError where it began on another."""
    then = kind.text(session.facts, default=kernel)
    if then != kernel:
        raise UsageError(f"session {session.id} ran on kernel {then}, this is {kernel}", "start a new one: kit compare")


def equipped(bench: Bench, request: Request) -> Bench:
    """The bench with what the user gave for engines. Raises UsageError."""
    docker = given_programs(Path(request.docker).absolute(), bench.paths.cache) if request.docker else None
    device = Path(request.thin_device) if request.thin_device else None
    return replace(bench, setting=replace(bench.setting, docker=docker, thin_device=device))


def _load_spec(materials: LoadMaterials, bench: Bench, stack: ExitStack) -> tuple[Workload, LoadSpec]:
    """The background load's workload and what it is given."""
    directory = stack.enter_context(shown(materials.folders, bench, "load-of"))
    own = replace(bench.setting, run=bench.setting.run / "load", cgroup=f"{bench.setting.cgroup}/load")
    own.run.mkdir()
    workload = Workload(materials.scenario, materials.image, materials.folders[""])
    return workload, LoadSpec(own, materials.image, directory)


def _load(workload: Workload, spec: LoadSpec, provision: Provision, bench: Bench, timeout: float | None) -> Load:
    group = Cgroup.named(spec.setting.cgroup).create()
    log = bench.paths.logs(bench.setting.session) / "load.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return Load(workload, provision, group, log, timeout)


def _make_ready(provision: Provision, context: SessionContext, bench: Bench) -> tuple[NotRun, ...]:
    """In the order of the arms."""
    not_run: dict[Arm, NotRun] = {}
    for arm in context.plan.arms:
        undriven = provision.undriven(arm) if context.scenario.engine else None
        if undriven:
            reason = f"{context.scenario.name} drives the engine itself, {undriven.reason}"
            not_run[arm] = NotRun(str(arm), reason, undriven.fix)
    not_run |= provision.all_ready([arm for arm in context.plan.arms if arm not in not_run], bench.setting.tell)
    return tuple(not_run[arm] for arm in context.plan.arms if arm in not_run)


def _compilers(provision: Provision, arms: tuple[Arm, ...], not_run: set[str]) -> list[Fact]:
    """Where the host's toolchain is compared with the image's: which compilers these are."""
    able = [arm for arm in arms if str(arm) not in not_run]
    hosts = [arm for arm in able if arm.placement == "host"][:1]
    others = [arm for arm in able if arm.placement != "host"][:1]
    found = []
    for arm in (*hosts, *others) if hosts and others else ():
        try:
            with provision.place(arm) as place, tempfile.TemporaryFile() as output:
                place.run(["cc", "--version"], ".", output)
                output.seek(0)
                said = output.readline().decode(errors="replace").strip()
        except RunError:
            said = "none"
        found.append(COMPILER.fact(said, str(arm)))
    return found


def backing_options(request: Request, context: SessionContext) -> BackingOptions:
    return BackingOptions(
        size=request.size or DEFAULT_SIZE,
        images=context.paths.loops,
        directory=Path(request.directory).absolute() if request.directory else None,
        device=Path(request.device) if request.device else None,
        wipe=context.wipe,
        mkfs=request.mkfs,
        mount=request.mount,
        export=request.export,
        profiles=profiles(request),
    )
