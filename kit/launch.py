"""From a request to a finished session: finds scenario, image and inputs, makes arms ready, runs the plan."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kit import __version__
from kit.arm import Arm, parse_arm
from kit.engines import Setting
from kit.errors import RunError, UnavailableError, UsageError
from kit.facts import session_facts
from kit.fetch import Fetcher, show_inputs
from kit.filesystem import BackingOptions, Profile, bundled, find_profile, recorded
from kit.filesystem.backing import DEFAULT_SIZE
from kit.filesystem.device import check_device
from kit.host import Host, read_host
from kit.image import Image, ImageCache, recipes
from kit.inputs import PreparedInput, prepare_input
from kit.paths import Paths, resource
from kit.plan import Plan, default_arms, make_plan
from kit.provision import Provision, Supplies
from kit.record import FAILED, INTERRUPTED, RUNNING, NotRun, Request, Session, new_session_id
from kit.scenario import Scenario, command_scenario, parse_scenario
from kit.session import Bench, Observer, Run, held_machine, run_session
from kit.store import Store
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


def launch(request: Request, paths: Paths, store: Store, observer: Observer, wait: bool = False) -> Session:
    """Run a new session. Raises KitError, KeyboardInterrupt; what was measured until then is in the store."""
    now = time.time()
    request = replace(request, seed=request.seed or secrets.randbelow(10**9) + 1)
    host = read_host()
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
    for arm in plan.arms:
        find_profile(arm.filesystem, BackingOptions(profiles=profiles(request)))
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
    image = find_image(session.request, job.scenario, job.plan.arms, bench, job.observer)
    try:
        folders = _input_folders(job, image, bench)
    except UnavailableError as error:
        not_run = tuple(NotRun(str(arm), error.message, error.hint) for arm in job.plan.arms)
        session = replace(session, not_run=not_run, status=FAILED)
        job.store.update(session)
        return session
    began = time.monotonic()  # of the budget: what is built or fetched once per machine does not count
    with _input_directory(folders, bench) as directory:
        options = backing_options(session.request, job.paths)
        with Provision(Supplies(bench.setting, job.host, options, image, directory)) as provision:
            not_run = _make_ready(provision, job.plan, job.observer)
            facts = session_facts(job.host, job.plan, job.scenarios, image) | provision.facts()
            facts |= _compilers(provision, job.plan.arms, {item.arm for item in not_run})
            session = replace(session, facts=facts, not_run=not_run)
            job.store.update(session)
            if len(not_run) == len(job.plan.arms):
                return replace(session, status=FAILED)
            provision.sync()
            workloads = {
                point: Workload(scenario, image, *_inputs_of(folders, point, list(job.scenarios)))
                for point, scenario in job.scenarios.items()
            }
            run = Run(job.plan, workloads, provision, job.store, bench, job.observer)
            return run_session(session, run, lambda: job.left(began))


Folders = dict[str, tuple[PreparedInput, ...]]


def _input_folders(job: _Job, image: Image | None, bench: Bench) -> Folders:
    """The inputs of each point; of all points, under '', where a sweep does not touch them."""
    found = {
        str(number): prepare_inputs(scenario, image, job, bench)
        for number, scenario in enumerate(job.scenarios.values(), 1)
    }
    return {"": found["1"]} if len(set(found.values())) == 1 else found


def prepare_inputs(scenario: Scenario, image: Image | None, job: _Job, bench: Bench) -> tuple[PreparedInput, ...]:
    """All of a scenario's inputs in the cache, in their order. Raises UnavailableError and what prepare_input does."""
    log = bench.paths.data / "logs" / bench.setting.session / f"fetch-{scenario.name}.log"
    fetcher = Fetcher(scenario, image, job.host, bench.setting, job.paths.cache, log, job.observer.tell)
    found: list[PreparedInput] = []
    for item in scenario.inputs:
        if item.source:
            found.append(prepare_input(item, job.paths.cache, job.observer.tell))
        elif item.fetch:
            found.append(fetcher.fetch(item, found))
    return tuple(found)


def _inputs_of(folders: Folders, point: str, points: Sequence[str]) -> tuple[tuple[PreparedInput, ...], str]:
    folder = "" if "" in folders else str(list(points).index(point) + 1)
    return folders[folder], folder


def _make_ready(provision: Provision, plan: Plan, observer: Observer) -> tuple[NotRun, ...]:
    not_run = []
    for arm in plan.arms:
        observer.tell(f"making {arm} ready")
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


#: What ``kit compare -- COMMAND`` runs in where neither --image nor --rootfs is given.
DEFAULT_IMAGE = "kernel"


def find_image(
    request: Request, scenario: Scenario, arms: tuple[Arm, ...], bench: Bench, observer: Observer
) -> Image | None:
    """The image that was asked for, else the scenario's own; None where every arm is the host itself."""
    cache = ImageCache(bench.paths.cache)
    if request.rootfs:
        return cache.from_directory(Path(request.rootfs))
    if request.image:
        return named_image(request.image, cache, bench.setting, observer)
    if all(arm.placement == "host" for arm in arms):
        return None
    return cache.from_recipe(scenario.image or DEFAULT_IMAGE, tell=observer.tell)


def named_image(name: str, cache: ImageCache, setting: Setting, observer: Observer, force: bool = False) -> Image:
    """A bundled recipe, a tarball on disk (of a root filesystem, or of ``docker save``), or a registry reference."""
    from kit.engines.pull import from_archive, from_registry, is_archive

    if name in recipes():
        return cache.from_recipe(name, force, observer.tell)
    path = Path(name)
    if path.is_file():
        return from_archive(path, cache, setting) if is_archive(path) else cache.from_tarball(path)
    if name.startswith((".", "/")) or name.endswith((".tar", ".xz", ".gz", ".zst")):
        raise UsageError(f"there is no image file {name}", f"or name a recipe: {', '.join(recipes())}")
    return from_registry(name, cache, setting, observer.tell)


@contextmanager
def _input_directory(folders: Folders, bench: Bench) -> Iterator[Path | None]:
    """The inputs that a scenario unpacks itself, as it sees them: hard links into the cache."""
    if all(item.into == "tree" for items in folders.values() for item in items):
        yield None
        return
    directory = bench.paths.cache / "inputs" / f"of-{bench.setting.session}"
    with bench.setting.journal.holding("directory", directory):
        directory.mkdir()
        for folder, items in folders.items():
            show_inputs(items, directory / folder)
        yield directory
