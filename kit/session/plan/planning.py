"""The meaning of a request on this machine: scenarios, plan and filesystems, and the form in which it is stored.
Nothing is held, built or run."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kit.arms.engines.installed import installed_docker
from kit.arms.engines.root import check_version, given_programs, version_in
from kit.arms.filesystem import BackingOptions, Profile, bundled, find_profile, recorded
from kit.arms.filesystem.plain import check_directory
from kit.arms.image import recipes
from kit.arms.image.image_file import find_image_file
from kit.core.errors import MachineError, UsageError
from kit.core.paths import find_paths, resource
from kit.core.quantity import cpu_list
from kit.core.regular import read_text
from kit.host.git import opened
from kit.host.machine import Host
from kit.model.arm import Arm, arms_of, driver_of, in_variants, parse_arm
from kit.model.default import DEFAULT_ENGINE
from kit.model.drivers import SESSION_ENGINES, SYSTEM, Docker, is_session_engine, lacking
from kit.model.plan import Plan, default_arms, make_plan, reference_of
from kit.model.scenario import COPIES, Scenario, Values, command_scenario, join_values, points
from kit.model.scenariofile import parse_scenario
from kit.model.session import Request, Session
from kit.session.inputs.sources import located
from kit.session.place import find_places
from kit.session.plan.interleave_policy import why_not
from kit.session.prepared import Prepared

#: Fields of a request that are always paths.
_PATHS = ("rootfs", "directory", "device", "thin_device", "docker", "kernel", "modules")


def find_scenario(name: str) -> Scenario:
    """Return a bundled scenario by name, or a file by path; ``NAME:VARIANT`` picks a variant. Raises UsageError."""
    # A file's directory may have a colon in its name; a variant has none.
    match = re.fullmatch(r"(.*\.toml)(?::([^:]*))?", name, re.DOTALL)
    stem, variant = (match[1], match[2] or "") if match else (name.partition(":")[0], name.partition(":")[2])
    path = Path(stem) if match else resource("scenarios") / f"{stem}.toml"
    if not path.is_file():
        hint = f"use one of: {', '.join(scenario_names())}; a file ending in .toml; or -- COMMAND"
        raise UsageError(f"unknown scenario '{name}'", hint)
    scenario = parse_scenario(read_text(path, "name a TOML file"), str(path), variant)
    return replace(scenario, here=str(path.absolute().parent))


def scenario_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in resource("scenarios").glob("*.toml")))


def prepare(request: Request, host: Host, docker: Docker | None = None) -> Prepared:
    """Return what a new session runs here. ``docker``: as ``plan_of``. Raises UsageError, MachineError."""
    host = _with_cpuset(request, host)
    load = _find_load(request, host)
    request = _with_commits(request)
    scenario = _scenario(request)
    params = scenario.with_sources(request.params, located)
    scenarios = scenario.at_points(params, host.cores)
    if load:
        load = load.bind(dict(load.with_sources(request.load_params, located)), host.cores)
    available = profiles(request)
    docker = docker or the_docker(request)
    request = replace(request, seed=request.seed or secrets.randbelow(10**9) + 1)
    plan = _plan(request, tuple(scenarios), available, docker)
    stored = _as_stored(request, params, scenarios, plan, load)
    prepared = Prepared(stored, scenarios, plan, available, load, reference_of(plan.arms, docker))
    reason = why_not(prepared, host) if plan.interleave is not None else ""
    if reason:
        raise UsageError(f"--interleave {request.interleave}: {reason}", "leave --interleave out")
    return prepared


def prepare_begun(session: Session, host: Host) -> Prepared:
    """Return the prepared form of a session that was planned earlier, on this or another machine. Raises UsageError."""
    request, plan = session.request, session.kept_plan()
    host = _with_cpuset(request, host)
    scenarios = _scenario(request).at_points(request.params, host.cores)
    if set(scenarios) != set(plan.points):
        raise UsageError(f"session {session.id}: its parameters are not those of its plan", "start a new one")
    if in_variants(plan.arms, request.commands, request.revisions) != plan.arms:
        raise UsageError(f"session {session.id}: its commands are not those of its plan", "start a new one")
    load = find_scenario(request.load).bind(dict(request.load_params), host.cores) if request.load else None
    return Prepared(request, scenarios, plan, profiles(request), load)


def _with_cpuset(request: Request, host: Host) -> Host:
    """Return the host with the cores that programs of arms find. Raises UsageError."""
    if request.cpuset and request.guest:
        raise UsageError("--cpuset does not reach into a guest", "use --guest-cores N")
    return replace(host, cores=len(cpu_list(request.cpuset))) if request.cpuset else host


def _scenario(request: Request) -> Scenario:
    if not request.own_command:
        return find_scenario(request.scenario)
    source, prepared = request.source or None, request.prepare or None
    return command_scenario(request.command, source, prepared, request.commands, request.revisions)


def _with_commits(request: Request) -> Request:
    """Return the request with the commits that its revisions mean now. Raises UsageError."""
    if not request.revisions:
        return request
    if not (request.source and request.own_command):
        raise UsageError("--source-rev needs a Git repository and a command", "add --source DIR and -- COMMAND")
    source = located(request.source)
    with opened(source, "--source-rev") as repository:
        commits = tuple((name, repository.find_revision(text, "--source-rev")) for name, text in request.revisions)
    return replace(request, source=source, revisions=commits)


def _find_load(request: Request, host: Host) -> Scenario | None:
    """Return the background load, before anything is held or built. Raises UsageError."""
    if not request.load:
        if request.load_params:
            raise UsageError("--load-param needs --load SCENARIO", "use for example kit compare git --load kernel:loop")
        return None
    load = find_scenario(request.load)
    if request.fresh:
        raise UsageError(
            "--load and --fresh exclude each other", "leave out one: the load needs the session's own filesystems"
        )
    if COPIES in dict(request.load_params):
        raise UsageError("--load-param copies: a load runs once", "use --copies N, or a load with more jobs")
    if load.registry:
        raise UsageError(
            f"--load {request.load} needs a registry, which only the measured scenario has", "use another load"
        )
    if not host.root:
        raise MachineError("a background load needs root", "run as root: sudo kit …")
    return load


def _as_stored(
    request: Request, params: Values, scenarios: Mapping[str, Scenario], plan: Plan, load: Scenario | None
) -> Request:
    """Return the request with its defaults and with absolute paths: all arms, all parameters, and the minimum number of
    rounds unless it is open. A resumed session then runs the same, whatever the current directory and a later kit's
    defaults. ``scenarios`` and ``load``: as bound."""
    requested = {name for name, _ in params}
    defaults = {
        name: join_values((text,))
        for scenario in scenarios.values()
        for name, text in scenario.values
        if name not in requested
    }
    paths: dict[str, Any] = {name: _absolute(getattr(request, name)) for name in _PATHS}
    paths |= {name: _absolute(text) for name in ("scenario", "load") if ".toml" in (text := getattr(request, name))}
    return replace(
        request,
        **paths,
        source=located(request.source),
        params=(*params, *defaults.items()),
        load_params=load.values if load else (),
        arms=tuple(map(str, plan.arms)),
        seed=plan.seed,
        rounds=request.rounds if plan.until_decided else plan.rounds,
        image=request.image if request.image in recipes() else _image(request.image),
    )


def _image(name: str) -> str:
    """Return the same for an image: a file or an OCI layout may be followed by a colon and a name in it."""
    return _absolute(name) if name.startswith(".") or find_image_file(name) else name


def _absolute(name: str) -> str:
    return str(Path(name).absolute()) if name else ""


def with_guest_cores(request: Request, host: Host) -> Host:
    """Return the host with the cores that the workload will find, without test boots. Raises UsageError."""
    return replace(host, cores=find_places().cores(request, host.cores)) if request.guest else host


def plan_of(request: Request, docker: Docker | None = None) -> Plan:
    """Return the plan of a request. Of the machine, the default arms alone depend on it: on the Docker that would run
    here, unless ``docker`` says which one. Raises UsageError."""
    return _plan(request, tuple(points(request.params)), profiles(request), docker or the_docker(request))


def the_docker(request: Request) -> Docker:
    """Return the Docker that arms without a version run. A guest has one of its own. A file that is missing here may
    exist where the session will run. Raises UsageError."""
    if request.guest:
        return Docker(version_in("guest", DEFAULT_ENGINE, "docker.io"))
    if request.engine == SYSTEM:
        return Docker()
    users_docker = Path(request.docker).absolute() if request.docker else None
    if users_docker is None:
        return installed_docker()
    return installed_docker(given_programs(users_docker, find_paths().cache)) if users_docker.exists() else Docker()


def _plan(request: Request, labels: tuple[str, ...], known: Mapping[str, Profile], docker: Docker) -> Plan:
    if not is_session_engine(request.engine):
        raise UsageError(f"--engine {request.engine}: unknown engine", f"use one of: {', '.join(SESSION_ENGINES)}")
    check_version(request.engine, "--engine: ")
    baseline = parse_arm(request.baseline, request.engine) if request.baseline else None
    if request.arms:
        arms = arms_of(request.arms, request.engine)
    elif request.engine == SYSTEM:
        from kit.arms.engines.system import running_driver

        arms = default_arms(SYSTEM, docker, request.cache, running_driver())
    else:
        arms = default_arms(request.engine, docker, request.cache)
    arms = in_variants(arms, request.commands, request.revisions)
    if baseline:
        in_variants((baseline,), request.commands, request.revisions)  # it names no other
    plan = make_plan(arms, request, labels)
    for arm in plan.arms:
        check_arm(arm, BackingOptions(profiles=known))
    if request.directory:
        check_directory(Path(request.directory).absolute())
    return plan


def check_arm(arm: Arm, options: BackingOptions) -> None:
    """Check that versions, drivers and filesystem of an arm exist, if not here. Raises UsageError."""
    for part in arm.parts:
        check_version(part.engine, f"arm '{arm}': ")
        _check_driver(part)
    find_profile(arm.filesystem, options)


def _check_driver(arm: Arm) -> None:
    """Check that the version which an arm names may have its driver. Raises UsageError."""
    name, at, _ = arm.engine.partition("@")
    reason = lacking(arm.engine, arm.driver, Docker()) if at else ""
    if reason:
        able = replace(arm, engine=f"{name}@{driver_of(arm).root}")
        raise UsageError(f"arm '{arm}': {reason}", f"use {able}, or leave it out")


def profiles(request: Request) -> Mapping[str, Profile]:
    """Return the bundled filesystem profiles and the user's own, which may replace them."""
    return {**bundled(), **recorded(request.profiles)}
