"""From a request to a finished session: finds scenario, image and inputs, makes arms ready, runs the plan."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kit import __version__
from kit.arm import Arm, parse_arm
from kit.engines import make_engine
from kit.errors import KitError, RunError, UsageError
from kit.filesystem import BackingOptions
from kit.filesystem.backing import DEFAULT_SIZE
from kit.host import Host, read_host
from kit.image import Image, ImageCache
from kit.inputs import PreparedInput, prepare_input
from kit.paths import Paths, resource
from kit.plan import Plan, default_arms, make_plan
from kit.provision import Provision, Supplies
from kit.record import RUNNING, NotRun, Request, Session, new_session_id
from kit.scenario import Scenario, command_scenario, parse_scenario
from kit.session import DROP_CACHES, Bench, Observer, held_machine, run_session
from kit.store import Store
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


def bind_scenario(request: Request, host: Host) -> Scenario:
    if request.command:
        scenario = command_scenario(request.command, request.source or None, request.prepare or None)
    else:
        scenario = find_scenario(request.scenario)
    return scenario.bind(dict(request.params), host.cores)


def launch(request: Request, paths: Paths, store: Store, observer: Observer, wait: bool = False) -> Session:
    """Run a new session. Raises KitError, KeyboardInterrupt; what was measured until then is in the store."""
    now = time.time()
    request = replace(request, seed=request.seed or secrets.randbelow(10**9) + 1)
    host = read_host()
    scenario = bind_scenario(request, host)
    plan = plan_of(request)
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
    return _carry_out(session, plan, scenario, host, paths, store, observer, wait)


def resume(name: str, paths: Paths, store: Store, observer: Observer, wait: bool = False) -> Session:
    """Finish the plan of a stopped session: same seed, same order, what is missing. Raises UsageError."""
    session = store.get(name)
    if session.request == Request():
        raise UsageError(f"session {session.id} was imported", "only sessions that the kit ran can be resumed")
    host = read_host()
    then = session.facts.get("kernel")
    if then not in (None, host.kernel):
        raise UsageError(
            f"session {session.id} ran on kernel {then}, this is {host.kernel}", "start a new one: kit compare"
        )
    scenario = bind_scenario(session.request, host)
    return _carry_out(session, plan_of(session.request), scenario, host, paths, store, observer, wait)


def plan_of(request: Request) -> Plan:
    baseline = parse_arm(request.baseline, request.engine) if request.baseline else None
    if request.arms:
        arms = tuple(parse_arm(text, request.engine) for text in request.arms)
    elif request.engine == "system":
        from kit.engines.system import running_driver

        arms = default_arms("system", running_driver())
    else:
        arms = default_arms()
    return make_plan(arms, request.rounds, request.seed, request.cache, baseline, request.fresh)


def _carry_out(
    session: Session, plan: Plan, scenario: Scenario, host: Host, paths: Paths, store: Store, observer: Observer, wait: bool
) -> Session:
    # A placement that a second start of the same session must not share with a killed first one.
    with held_machine(session.id, paths, wait, observer) as bench:
        image = find_image(session.request, scenario, plan.arms, paths, observer)
        inputs = tuple(prepare_input(item, paths.cache, observer.tell) for item in scenario.inputs)
        with _input_directory(inputs, bench) as directory:
            supplies = Supplies(bench.setting, host, backing_options(session.request, paths), image, directory)
            with Provision(supplies) as provision:
                not_run = _make_ready(provision, plan, observer)
                facts = session_facts(host, plan, scenario, image) | provision.facts()
                session = replace(session, facts=facts, not_run=not_run, status=RUNNING)
                if session.samples:
                    store.update(session)
                else:
                    store.create(session)
                if len(not_run) == len(plan.arms):
                    return _nothing_runs(session, store)
                provision.sync()
                workload = Workload(scenario, image, inputs)
                return run_session(session, plan, workload, provision, store, bench, observer)


def _nothing_runs(session: Session, store: Store) -> Session:
    session = replace(session, status="failed")
    store.update(session)
    return session


def _make_ready(provision: Provision, plan: Plan, observer: Observer) -> tuple[NotRun, ...]:
    not_run = []
    for arm in plan.arms:
        observer.tell(f"making {arm} ready")
        blocked = provision.ready(arm)
        if blocked:
            not_run.append(blocked)
    return tuple(not_run)


def backing_options(request: Request, paths: Paths) -> BackingOptions:
    return BackingOptions(
        size=request.size or DEFAULT_SIZE,
        images=paths.state / "loops",
        directory=Path(request.directory).absolute() if request.directory else None,
        device=Path(request.device) if request.device else None,
        wipe=Path(request.wipe) if request.wipe else None,
        mkfs=request.mkfs,
        mount=request.mount,
    )


def find_image(
    request: Request, scenario: Scenario, arms: tuple[Arm, ...], paths: Paths, observer: Observer
) -> Image | None:
    """The image that was asked for, else the scenario's own; None where every arm is the host itself."""
    cache = ImageCache(paths.cache)
    if request.rootfs:
        return cache.from_directory(Path(request.rootfs))
    if request.image:
        return named_image(request.image, cache, observer)
    if all(arm.placement == "host" for arm in arms):
        return None
    return cache.from_recipe(scenario.image or DEFAULT_IMAGE, tell=observer.tell)


#: What ``kit compare -- COMMAND`` runs in where neither --image nor --rootfs is given.
DEFAULT_IMAGE = "kernel"


def named_image(name: str, cache: ImageCache, observer: Observer) -> Image:
    """A bundled recipe, a tarball on disk, or a reference to a registry."""
    from kit.image import recipes

    if name in recipes():
        return cache.from_recipe(name, tell=observer.tell)
    if Path(name).is_file():
        return cache.from_tarball(Path(name))
    from kit.image.registry import from_registry

    return from_registry(name, cache, observer.tell)


@contextmanager
def _input_directory(inputs: tuple[PreparedInput, ...], bench: Bench) -> Iterator[Path | None]:
    """The inputs that a scenario unpacks itself, as it sees them: hard links, or copies across filesystems."""
    shown = [item for item in inputs if item.into == "inputs"]
    if not shown:
        yield None
        return
    directory = bench.paths.cache / "inputs" / f"of-{bench.setting.session}"
    with bench.setting.journal.holding("directory", directory):
        directory.mkdir()
        for item in shown:
            os.link(item.path, directory / f"{item.name}.tar.zst")
        yield directory


def session_facts(host: Host, plan: Plan, scenario: Scenario, image: Image | None) -> dict[str, str]:
    """The facts that numbers depend on, as text. What this machine does not offer says so here."""
    permitted = plan.cache == "warm" or os.access(DROP_CACHES, os.W_OK)
    return {
        "kernel": host.kernel,
        "distribution": host.distribution,
        "cpu": f"{host.cpu}, {host.cores} cores, microcode {host.microcode}, governor {host.governor}",
        "virtualization": host.virtualization,
        "memory": f"{host.memory_bytes / 2**30:.1f} GiB",
        "machine": host.machine,
        "cgroups": host.cgroup_mode,
        "overlay": ", ".join(f"{key}={value}" for key, value in host.overlay) or "no module parameters",
        "caches": plan.cache if permitted else "cold was asked for, but dropping caches is not permitted here",
        "rounds": str(plan.rounds),
        "seed": str(plan.seed),
        "fresh filesystem": "per run" if plan.fresh else "per session",
        "parameters": ", ".join(f"{key}={value}" for key, value in scenario.values) or "none",
        "image": f"{image.name} {image.digest[:12]} ({image.origin})" if image else "none: the host itself",
        **lacking(host),
    }


def lacking(host: Host) -> dict[str, str]:
    """Figures that will be null, each with the reason."""
    found = {}
    if not Path("/proc/pressure").is_dir():
        found["no psi"] = "this kernel has no /proc/pressure (CONFIG_PSI, or psi=1 at boot)"
    if host.cgroup_mode == "none":
        found["no cgroup CPU"] = "no cgroup hierarchy is mounted"
    elif not host.root:
        found["no cgroup CPU on host arms"] = "making a cgroup needs root"
    return found


__all__ = ["KitError", "RunError", "find_scenario", "launch", "make_engine", "resume", "scenario_names"]
