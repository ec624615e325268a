"""From a request to a finished session: finds scenario, image and inputs, makes arms ready, runs the plan."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from kit import __version__
from kit.arm import Arm, parse_arm
from kit.cgroup import Cgroup
from kit.errors import MachineError, RunError, UnavailableError, UsageError
from kit.facts import session_facts
from kit.filesystem import BackingOptions, Profile, bundled, find_profile, recorded
from kit.filesystem.backing import DEFAULT_SIZE
from kit.filesystem.device import check_device
from kit.host import Host, read_host
from kit.image import ImageCache
from kit.load import Load
from kit.paths import Paths, resource
from kit.plan import Plan, default_arms, make_plan
from kit.provision import LoadSupplies, Provision, Supplies
from kit.record import FAILED, INTERRUPTED, RUNNING, NotRun, Request, Session, new_session_id
from kit.scenario import Scenario, command_scenario, parse_scenario
from kit.session import Bench, Observer, Run, held_machine, run_session
from kit.store import Store
from kit.supply import Supplier, workloads
from kit.sweep import points
from kit.workload import Workload


def find_scenario(name: str) -> Scenario:
    """A bundled scenario by name, or a file by path; ``NAME:VARIANT`` picks a variant. Raises UsageError."""
    stem, _, variant = name.partition(":")
    path = Path(stem) if stem.endswith(".toml") else resource("scenarios") / f"{stem}.toml"
    if not path.is_file():
        hint = f"bundled: {', '.join(scenario_names())}; or give a file ending in .toml, or -- COMMAND"
        raise UsageError(f"there is no scenario '{name}'", hint)
    return parse_scenario(path.read_text(encoding="utf-8"), str(path), variant)


def scenario_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in resource("scenarios").glob("*.toml")))


def bind_scenarios(request: Request, host: Host) -> dict[str, Scenario]:
    """The scenario at each point of the sweep, by the point's label; one, labelled '', where nothing is swept."""
    if request.command:
        scenario = command_scenario(request.command, request.source or None, request.prepare or None)
    else:
        scenario = find_scenario(request.scenario)
    return {label: scenario.bind(dict(values), host.cores) for label, values in points(request.params).items()}


def check_load(request: Request, host: Host) -> None:
    """Before anything is held or built. Raises UsageError."""
    if not request.load:
        if request.load_params:
            raise UsageError("--load-param goes with --load SCENARIO", "kit compare git --load kernel:loop")
        return
    find_scenario(request.load).bind(dict(request.load_params), host.cores)
    if request.fresh:
        raise UsageError("--load and --fresh exclude each other", "the load lives on the session's own filesystems")
    if not host.root:
        raise MachineError("a background load needs root", "sudo kit …")


def launch(request: Request, paths: Paths, store: Store, observer: Observer, wait: bool = False) -> Session:
    """Run a new session. Raises KitError, KeyboardInterrupt; what was measured until then is in the store."""
    now = time.time()
    request = replace(request, seed=request.seed or secrets.randbelow(10**9) + 1)
    host = read_host()
    check_load(request, host)
    scenarios = bind_scenarios(request, host)
    scenario = next(iter(scenarios.values()))
    plan = plan_of(request)
    if request.device:
        check_device(Path(request.device), Path(request.wipe) if request.wipe else None)
    session = Session(
        id=new_session_id(now),
        created=now,
        kit_version=__version__,
        title=scenario.label if not request.command else scenario.summary,
        status=RUNNING,
        request=request,
        arms=tuple(map(str, plan.arms)),
        baselines=plan.baselines,
        seed=plan.seed,
    )
    return _carry_out(session, _Job(plan, scenarios, host, paths, store, observer), wait)


def resume(name: str, paths: Paths, store: Store, observer: Observer, wait: bool = False) -> Session:
    """Finish the plan of a stopped session: same seed, same order, what is missing. Raises UsageError."""
    session = store.get(name)
    if not (session.request.scenario or session.request.command):
        raise UsageError(f"session {session.id} was imported", "only sessions that the kit ran can be resumed")
    host = read_host()
    then = session.facts.get("kernel")
    if then not in (None, host.kernel):
        raise UsageError(
            f"session {session.id} ran on kernel {then}, this is {host.kernel}", "start a new one: kit compare"
        )
    scenarios = bind_scenarios(session.request, host)
    return _carry_out(session, _Job(plan_of(session.request), scenarios, host, paths, store, observer), wait)


def plan_of(request: Request) -> Plan:
    baseline = parse_arm(request.baseline, request.engine) if request.baseline else None
    if request.arms:
        arms = tuple(parse_arm(text, request.engine) for text in request.arms)
    elif request.engine == "system":
        from kit.engines.system import running_driver

        arms = default_arms("system", running_driver())
    else:
        arms = default_arms()
    plan = make_plan(
        arms,
        request.rounds,
        request.seed,
        request.cache,
        baseline,
        request.fresh,
        points=tuple(points(request.params)),
        precision=request.precision,
        budget=request.budget,
        control=request.control,
    )
    options = BackingOptions(profiles=profiles(request))
    for arm in plan.arms:
        find_profile(arm.filesystem, options)
    return plan


def profiles(request: Request) -> Mapping[str, Profile]:
    """The bundled filesystem profiles and the user's own, which may replace them."""
    return {**bundled(), **recorded(request.profiles)}


@dataclass(frozen=True)
class _Job:
    """What a new and a resumed session have in common."""

    plan: Plan
    scenarios: Mapping[str, Scenario]  # by point
    host: Host
    paths: Paths
    store: Store
    observer: Observer

    @property
    def scenario(self) -> Scenario:
        """That of the first point; image and steps' names are the same in all."""
        return next(iter(self.scenarios.values()))

    def left(self, began: float) -> float | None:
        """Seconds of the budget that remain, counted from a time.monotonic()."""
        return None if self.plan.budget is None else self.plan.budget - (time.monotonic() - began)


def _carry_out(session: Session, job: _Job, wait: bool) -> Session:
    """Hold the machine and run what is left of the session; whatever ends it, its state is in the store."""
    with held_machine(session.id, job.paths, wait, job.observer) as bench:
        if session.samples:
            job.store.set_status(session.id, RUNNING)
        else:
            job.store.create(session)
        job.observer.tell(f"session {session.id}: {session.title}")
        try:
            session = _perform(session, job, bench)
        except KeyboardInterrupt:
            job.store.set_status(session.id, INTERRUPTED)
            raise
        except BaseException:
            job.store.set_status(session.id, FAILED)
            raise
        job.store.set_status(session.id, session.status)
        return session


def _perform(session: Session, job: _Job, bench: Bench) -> Session:
    supplier = Supplier(bench, job.host, job.observer)
    image = supplier.image(session.request, job.scenario, job.plan.arms)
    with ExitStack() as stack:
        try:
            folders = supplier.folders(list(job.scenarios.values()), image)
            directory = stack.enter_context(supplier.directory(folders, "of"))
            beside = _load_supplies(session.request, supplier, stack)
        except UnavailableError as error:
            not_run = tuple(NotRun(str(arm), error.message, error.hint) for arm in job.plan.arms)
            session = replace(session, not_run=not_run, status=FAILED)
            job.store.update(session)
            return session
        began = time.monotonic()  # of the budget: what is built or fetched once per machine does not count
        options = backing_options(session.request, job.paths)
        supplies = Supplies(bench.setting, job.host, options, image, directory)
        provision = stack.enter_context(Provision(supplies, beside and beside[1]))
        not_run = _make_ready(provision, job)
        facts = session_facts(job.host, job.plan, job.scenarios, image) | provision.facts()
        facts |= _compilers(provision, job.plan.arms, {item.arm for item in not_run})
        if beside:
            values = ", ".join(f"{name}={value}" for name, value in beside[0].scenario.values)
            facts["background load"] = f"{beside[0].scenario.label}, {values or 'no parameters'}"
        session = replace(session, facts=facts, not_run=not_run)
        job.store.update(session)
        if len(not_run) == len(job.plan.arms):
            return replace(session, status=FAILED)
        provision.sync()
        load = _load(beside[0], beside[1], provision, bench) if beside else None
        made = workloads(job.scenarios, image, folders)
        run = Run(job.plan, made, provision, job.store, bench, job.observer, load)
        return run_session(session, run, lambda: job.left(began))


def _load_supplies(request: Request, supplier: Supplier, stack: ExitStack) -> tuple[Workload, LoadSupplies] | None:
    """The background load's workload and what it is given; None where none is asked for."""
    if not request.load:
        return None
    scenario = find_scenario(request.load).bind(dict(request.load_params), supplier.host.cores)
    bench = supplier.bench
    image = ImageCache(bench.paths.cache).from_recipe(scenario.image, tell=supplier.observer.tell)
    folders = supplier.folders([scenario], image)
    directory = stack.enter_context(supplier.directory(folders, "load-of"))
    own = replace(bench.setting, run=bench.setting.run / "load", cgroup=f"{bench.setting.cgroup}/load")
    own.run.mkdir()
    return Workload(scenario, image, folders[""]), LoadSupplies(own, image, directory)


def _load(workload: Workload, supplies: LoadSupplies, provision: Provision, bench: Bench) -> Load:
    group = Cgroup.named(supplies.setting.cgroup).create()
    log = bench.paths.data / "logs" / bench.setting.session / "load.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return Load(workload, provision, group, log)


def _make_ready(provision: Provision, job: _Job) -> tuple[NotRun, ...]:
    not_run = []
    for arm in job.plan.arms:
        job.observer.tell(f"making {arm} ready")
        if job.scenario.engine and arm.engine == "system":
            blocked: NotRun | None = NotRun(
                str(arm), f"{job.scenario.name} drives the engine itself, and this one is yours", "use --engine docker"
            )
        else:
            blocked = provision.ready(arm)
        if blocked:
            not_run.append(blocked)
    return tuple(not_run)


def _compilers(provision: Provision, arms: tuple[Arm, ...], not_run: set[str]) -> dict[str, str]:
    """Where the host's toolchain is compared with the image's: which compilers these are."""
    able = [arm for arm in arms if str(arm) not in not_run]
    hosts = [arm for arm in able if arm.placement == "host"][:1]
    others = [arm for arm in able if arm.placement != "host"][:1]
    found = {}
    for arm in (*hosts, *others) if hosts and others else ():
        with provision.place(arm) as place, tempfile.TemporaryFile() as output:
            try:
                place.run(["cc", "--version"], ".", output)
                output.seek(0)
                found[f"compiler of {arm}"] = output.readline().decode(errors="replace").strip()
            except RunError:
                found[f"compiler of {arm}"] = "none"
    return found


def backing_options(request: Request, paths: Paths) -> BackingOptions:
    return BackingOptions(
        size=request.size or DEFAULT_SIZE,
        images=paths.state / "loops",
        directory=Path(request.directory).absolute() if request.directory else None,
        device=Path(request.device) if request.device else None,
        wipe=Path(request.wipe) if request.wipe else None,
        mkfs=request.mkfs,
        mount=request.mount,
        export=request.export,
        profiles=profiles(request),
    )
