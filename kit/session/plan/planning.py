"""The meaning of a request on this machine: scenarios, plan and filesystems. Nothing is held, built or run."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kit.core.errors import MachineError, UsageError
from kit.core.paths import find_paths, resource
from kit.core.regular import read_text
from kit.filesystem import BackingOptions, Profile, bundled, find_profile, recorded
from kit.filesystem.plain import check_directory
from kit.host.machine import Host
from kit.model.arm import arms_of, parse_arm
from kit.model.drivers import SYSTEM
from kit.model.plan import Plan, default_arms, make_plan, slice_of
from kit.model.scenario import Scenario, command_scenario
from kit.model.scenariofile import parse_scenario
from kit.model.session import Request, Session
from kit.model.sweep import points
from kit.session.plan.interleave_policy import why_not
from kit.session.plan.request_snapshot import absolute_paths, as_planned
from kit.session.prepared import Prepared


def find_scenario(name: str) -> Scenario:
    """Return a bundled scenario by name, or a file by path; ``NAME:VARIANT`` picks a variant. Raises UsageError."""
    # A file's directory may have a colon in its name; a variant has none.
    match = re.fullmatch(r"(.*\.toml)(?::([^:]*))?", name, re.DOTALL)
    stem, variant = (match[1], match[2] or "") if match else (name.partition(":")[0], name.partition(":")[2])
    path = Path(stem) if match else resource("scenarios") / f"{stem}.toml"
    if not path.is_file():
        hint = f"use one of: {', '.join(scenario_names())}; a file ending in .toml; or -- COMMAND"
        raise UsageError(f"unknown scenario '{name}'", hint)
    found = parse_scenario(read_text(path, "name a TOML file"), str(path), variant)
    return replace(found, here=str(path.absolute().parent))


def scenario_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in resource("scenarios").glob("*.toml")))


def prepare(request: Request, host: Host) -> Prepared:
    """Return what a new session runs here. Raises UsageError, MachineError."""
    request = replace(request, seed=request.seed or secrets.randbelow(10**9) + 1)
    load = _check_load(request, host)
    scenario = _scenario(request)
    request = absolute_paths(request, scenario, load)
    scenarios = _bind(scenario, request, host)
    load = load and load.bind(dict(request.load_params), host.cores)
    known = profiles(request)
    plan = _plan(request, tuple(scenarios), known)
    prepared = Prepared(as_planned(request, plan, scenarios.values(), load), scenarios, plan, known, load)
    reason = why_not(prepared, host) if plan.interleave is not None else ""
    if reason:
        raise UsageError(f"--interleave {request.interleave}: {reason}", "leave --interleave out")
    return prepared


def prepare_begun(session: Session, host: Host) -> Prepared:
    """Return the prepared form of a session that was planned earlier, on this or another machine. Raises UsageError."""
    request, plan = session.request, session.kept_plan()
    scenarios = _bind(_scenario(request), request, host)
    if set(scenarios) != set(plan.points):
        raise UsageError(f"session {session.id}: its parameters are not those of its plan", "start a new one")
    load = find_scenario(request.load).bind(dict(request.load_params), host.cores) if request.load else None
    return Prepared(request, scenarios, plan, profiles(request), load)


def _scenario(request: Request) -> Scenario:
    if not request.command:
        return find_scenario(request.scenario)
    return command_scenario(request.command, request.source or None, request.prepare or None)


def _bind(scenario: Scenario, request: Request, host: Host) -> dict[str, Scenario]:
    """Return the scenario at each point of the sweep, by the point's label; one, labelled '', without a sweep."""
    return {label: scenario.bind(dict(values), host.cores) for label, values in points(request.params).items()}


def _check_load(request: Request, host: Host) -> Scenario | None:
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
    if load.registry:
        raise UsageError(
            f"--load {request.load} needs a registry, which only the measured scenario has", "use another load"
        )
    if not host.root:
        raise MachineError("a background load needs root", "run as root: sudo kit …")
    return load


def with_guest_cores(request: Request, host: Host) -> Host:
    """Return the host with the cores that the workload will find, without test boots. An unnamed guest is QEMU's if KVM
    may be usable. Raises UsageError."""
    if not request.guest:
        return host
    from kit.guest import AUTO, Tools, make_machine

    kernel = Path(request.kernel) if request.kernel else None
    unknown = request.guest == AUTO and not kernel and Path("/dev/kvm").exists()
    kind = "qemu" if unknown else request.guest
    machine = make_machine(kind, Tools(find_paths().cache), kernel, None)
    return replace(host, cores=machine.cores(request.guest_cores or host.cores))


def plan_of(request: Request) -> Plan:
    """Return the plan of a request, independent of the machine. Raises UsageError."""
    return _plan(request, tuple(points(request.params)), profiles(request))


def _plan(request: Request, labels: tuple[str, ...], known: Mapping[str, Profile]) -> Plan:
    baseline = parse_arm(request.baseline, request.engine) if request.baseline else None
    if request.arms:
        arms = arms_of(request.arms, request.engine)
    elif request.engine == SYSTEM:
        from kit.engines.system import running_driver

        arms = default_arms(SYSTEM, running_driver())
    else:
        arms = default_arms()
    plan = make_plan(
        arms,
        request.rounds,
        request.seed,
        request.cache,
        baseline,
        request.fresh,
        points=labels,
        precision=request.precision,
        budget=request.budget,
        control=request.control,
        timeout=request.timeout,
        interleave=slice_of(request.interleave),
        rerun=request.rerun,
        margin=request.margin,
    )
    if request.directory:
        check_directory(Path(request.directory).absolute())
    options = BackingOptions(profiles=known)
    for arm in plan.arms:
        find_profile(arm.filesystem, options)
    return plan


def profiles(request: Request) -> Mapping[str, Profile]:
    """Return the bundled filesystem profiles and the user's own, which may replace them."""
    return {**bundled(), **recorded(request.profiles)}
