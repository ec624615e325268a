"""Prepares a session's arms, whose image and inputs are available: on this machine, or in a guest."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

from kit.arms.engines.registry import registry_blocker
from kit.arms.filesystem import BackingOptions
from kit.core.errors import RunError
from kit.host.cgroup.cgroup import Cgroup
from kit.model.arm import Arm
from kit.model.duration import after_pilot
from kit.model.event import EventSink, FactsKnown, SampleTaken
from kit.model.fact import COMPILER, LOAD, STOPPED, Fact
from kit.model.sample import Sample
from kit.model.scenario import Scenario
from kit.model.session import FAILED, NotRun, Session
from kit.session.execute.materials import LoadMaterials, Materials, bind_workloads, shown
from kit.session.measure.background import Load
from kit.session.measure.context import MachineLease, RunContext
from kit.session.measure.pilot import Pilot, WorkloadFailedError, pilot_runs
from kit.session.measure.workload import Workload
from kit.session.plan.interleave_policy import decide
from kit.session.prepared import Prepared, SessionContext
from kit.session.setup.facts import session_facts
from kit.session.setup.provision import LoadSpec, Provision, ProvisionSpec
from kit.session.setup.resumable import check_engines


class NoArmsError(Exception):
    """No arm can be measured. ``session``: in its final state."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session


def prepare_arms(
    session: Session, context: SessionContext, lease: MachineLease, materials: Materials, stack: ExitStack
) -> tuple[Session, RunContext]:
    """Decide on the run order, set up filesystems and engines until ``stack`` ends, and load the image. Return the
    session with its facts, and what its rounds need. Raises NoArmsError, KitError, KeyboardInterrupt."""
    prepared, folders = context.prepared, materials.folders
    inputs = stack.enter_context(shown(folders, lease, "of"))
    load = _load_spec(materials.load, lease, stack) if materials.load else None
    spec = _provision_spec(context, lease, materials, inputs)
    workloads = bind_workloads(prepared.scenarios, materials.image, folders, inputs)
    pilot = partial(_pilots, context, spec, workloads, lease)
    try:
        plan, facts = decide(session, prepared, context.host, pilot)
    except WorkloadFailedError as error:
        facts_before = session_facts(context.host, prepared.plan, prepared.scenarios, materials.image)
        raise NoArmsError(_failed(session.with_facts(facts_before), context.events, error.samples)) from None
    session = session.with_facts(facts)
    spec = replace(spec, apart=plan.interleave is not None)
    provision = stack.enter_context(Provision(spec, load and load[1]))
    not_run = _make_ready(provision, prepared, lease)
    arm_facts = [*session_facts(context.host, plan, prepared.scenarios, materials.image), *provision.facts()]
    arm_facts += _compilers(provision, plan.arms, {arm.arm for arm in not_run})
    arm_facts += _load_facts(load[0].scenario) if load else []
    check_engines(session, arm_facts)
    session = replace(session.with_facts(arm_facts), not_run=not_run)
    context.events.take(FactsKnown.of(session))
    if len(not_run) == len(plan.arms):
        raise NoArmsError(replace(session, status=FAILED))
    provision.sync()
    background = _load(load[0], load[1], provision, lease, plan.timeout) if load else None
    return session, RunContext(plan, workloads, provision, context.events, lease, background)


def _provision_spec(
    context: SessionContext, lease: MachineLease, materials: Materials, inputs: Path | None
) -> ProvisionSpec:
    prepared = context.prepared
    return ProvisionSpec(
        lease.setting,
        context.host,
        backing_options(context),
        materials.image,
        inputs,
        cpuset=prepared.plan.cpuset,
        copies=any(scenario.copies > 1 for scenario in prepared.scenarios.values()),
    )


def _load_facts(scenario: Scenario) -> list[Fact]:
    values = ", ".join(f"{name}={value}" for name, value in scenario.values)
    return [LOAD.fact(f"{scenario.label}, {values or 'no parameters'}")]


def _failed(session: Session, events: EventSink, samples: tuple[Sample, ...]) -> Session:
    """Return the session with its failed pilot runs, as warm-up runs, before any arm is set up."""
    for sample in samples:
        events.take(SampleTaken(sample))
    arms = " and ".join(sample.arm for sample in samples)
    session = session.with_facts([STOPPED.fact(f"the pilot run failed on {arms}; no arm is set up")])
    events.take(FactsKnown.of(session))
    return replace(session, samples=(*session.samples, *samples), status=FAILED)


def _pilots(
    context: SessionContext, spec: ProvisionSpec, workloads: Mapping[str, Workload], lease: MachineLease
) -> list[Pilot]:
    """Make the pilot runs, say how long the rounds take, and return the results. Raises WorkloadFailedError."""
    plan, tell = context.prepared.plan, lease.setting.tell
    tell("pilot run: how long a run takes, and whether the workload waits for a clock or a network")
    with Provision(spec) as provision:
        pilots = pilot_runs(RunContext(plan, workloads, provision, context.events, lease))
    if pilots and all(pilot.failures for pilot in pilots):
        raise WorkloadFailedError(tuple(sample for pilot in pilots for sample in pilot.failures))
    ran = [pilot for pilot in pilots if not pilot.error]
    if ran:
        seconds = fmean(pilot.seconds for pilot in ran)
        tell(after_pilot(plan, seconds, any(pilot.ended for pilot in ran)))
    return pilots


def _load_spec(materials: LoadMaterials, lease: MachineLease, stack: ExitStack) -> tuple[Workload, LoadSpec]:
    """Return the background load's workload and its materials."""
    directory = stack.enter_context(shown(materials.folders, lease, "load-of"))
    setting = replace(lease.setting, run=lease.setting.run / "load", cgroup=f"{lease.setting.cgroup}/load")
    setting.run.mkdir()
    workload = Workload(materials.scenario, materials.image, materials.folders[""])
    return workload, LoadSpec(setting, materials.image, directory)


def _load(workload: Workload, spec: LoadSpec, provision: Provision, lease: MachineLease, timeout: float | None) -> Load:
    group = Cgroup.named(spec.setting.cgroup).create()
    log = lease.paths.logs(lease.setting.session) / "load.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return Load(workload, provision, group, log, timeout)


def _make_ready(provision: Provision, prepared: Prepared, lease: MachineLease) -> tuple[NotRun, ...]:
    """Make the arms ready; return those that can't run, in the order of the arms."""
    not_run: dict[Arm, NotRun] = {}
    scenario = prepared.scenario
    registry = registry_blocker() if scenario.registry else None
    for arm in prepared.plan.arms:
        unsupported = provision.unsupported(arm, scenario.engine) if scenario.engine else None
        if unsupported:
            reason = f"{scenario.name} drives the engine itself: {unsupported.reason}"
            not_run[arm] = NotRun(str(arm), reason, unsupported.fix)
        elif registry:
            not_run[arm] = NotRun(str(arm), registry.reason, registry.fix)
    not_run |= provision.all_ready([arm for arm in prepared.plan.arms if arm not in not_run], lease.setting.tell)
    return tuple(not_run[arm] for arm in prepared.plan.arms if arm in not_run)


def _compilers(provision: Provision, arms: tuple[Arm, ...], not_run: set[str]) -> list[Fact]:
    """Return the compilers as facts if the host's toolchain is compared with the image's."""
    able = [arm for arm in arms if str(arm) not in not_run]
    hosts = [arm for arm in able if arm.placement == "host"][:1]
    others = [arm for arm in able if arm.placement != "host"][:1]
    facts = []
    for arm in (*hosts, *others) if hosts and others else ():
        try:
            with provision.sandbox(arm) as sandbox, tempfile.TemporaryFile() as output:
                sandbox.run(["cc", "--version"], ".", output)
                output.seek(0)
                version = output.readline().decode(errors="replace").strip()
        except RunError:
            version = "none"
        facts.append(COMPILER.fact(version, str(arm)))
    return facts


def backing_options(context: SessionContext) -> BackingOptions:
    request = context.prepared.request
    return BackingOptions(
        size=request.size,
        images=context.paths.loops,
        directory=Path(request.directory).absolute() if request.directory else None,
        device=Path(request.device) if request.device else None,
        wipe=context.start.wipe,
        mkfs=request.mkfs,
        mount=request.mount,
        export=request.export,
        profiles=context.prepared.profiles,
    )
