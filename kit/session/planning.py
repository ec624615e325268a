"""What a request means here and now: its scenarios, its plan, its filesystems. Nothing is held, built or run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kit.core.errors import MachineError, UsageError
from kit.core.paths import find_paths, resource
from kit.core.textfile import read_text
from kit.filesystem import BackingOptions, Profile, bundled, find_profile, recorded
from kit.filesystem.plain import check_directory
from kit.host.machine import Host
from kit.model.arm import parse_arm
from kit.model.drivers import SYSTEM
from kit.model.plan import Plan, default_arms, make_plan, slice_of
from kit.model.scenario import Scenario, command_scenario
from kit.model.scenariofile import parse_scenario
from kit.model.session import Request
from kit.model.sweep import points
from kit.session.freeze import absolute_paths, all_params, as_planned
from kit.session.interleave_policy import why_not


def find_scenario(name: str) -> Scenario:
    """A bundled scenario by name, or a file by path; ``NAME:VARIANT`` picks a variant. Raises UsageError."""
    # A file's directory may have a colon in its name, a variant has none.
    match = re.fullmatch(r"(.*\.toml)(?::([^:]*))?", name, re.DOTALL)
    stem, variant = (match[1], match[2] or "") if match else (name.partition(":")[0], name.partition(":")[2])
    path = Path(stem) if match else resource("scenarios") / f"{stem}.toml"
    if not path.is_file():
        hint = f"bundled: {', '.join(scenario_names())}; or give a file ending in .toml, or -- COMMAND"
        raise UsageError(f"there is no scenario '{name}'", hint)
    return parse_scenario(read_text(path, "name a TOML file"), str(path), variant)


def scenario_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in resource("scenarios").glob("*.toml")))


def bind_scenarios(request: Request, host: Host) -> dict[str, Scenario]:
    """The scenario at each point of the sweep, by the point's label; one, labelled '', where nothing is swept."""
    if request.command:
        scenario = command_scenario(request.command, request.source or None, request.prepare or None)
    else:
        scenario = find_scenario(request.scenario)
    return {label: scenario.bind(dict(values), host.cores) for label, values in points(request.params).items()}


def bind_load(request: Request, host: Host) -> Scenario:
    """The scenario of a request that has a background load."""
    return find_scenario(request.load).bind(dict(request.load_params), host.cores)


def check_load(request: Request, host: Host) -> Scenario | None:
    """The background load, bound; before anything is held or built. Raises UsageError."""
    if not request.load:
        if request.load_params:
            raise UsageError("--load-param goes with --load SCENARIO", "kit compare git --load kernel:loop")
        return None
    load = bind_load(request, host)
    if request.fresh:
        raise UsageError("--load and --fresh exclude each other", "the load lives on the session's own filesystems")
    if not host.root:
        raise MachineError("a background load needs root", "sudo kit …")
    return load


def plan_session(request: Request, host: Host) -> tuple[Request, dict[str, Scenario], Plan]:
    """What a request means here and now: the request with all that it left open written out, its scenarios by the
    sweep's points, and its plan. Nothing is held or built. Raises UsageError, MachineError."""
    load = check_load(request, host)
    request = all_params(absolute_paths(request), bind_scenarios(request, host).values(), load)
    plan = plan_of(request)
    scenarios = bind_scenarios(request, host)
    if plan.interleave is not None:
        reason = why_not(request, plan.arms, next(iter(scenarios.values())), profiles(request), host)
        if reason:
            raise UsageError(f"--interleave {request.interleave}: {reason}", "leave --interleave out")
    return as_planned(request, plan), scenarios, plan


def with_guest_cores(request: Request, host: Host) -> Host:
    """The host with the cores that the workload will find, without trying what this machine can boot: of a guest that
    is not named, QEMU's where KVM may be usable. Raises UsageError."""
    if not request.guest:
        return host
    from kit.guest import AUTO, Tools, make_machine

    kernel = Path(request.kernel) if request.kernel else None
    unknown = request.guest == AUTO and not kernel and Path("/dev/kvm").exists()
    kind = "qemu" if unknown else request.guest
    machine = make_machine(kind, Tools(find_paths().cache), kernel, None)
    return replace(host, cores=machine.cores(request.guest_cores or host.cores))


def plan_of(request: Request) -> Plan:
    baseline = parse_arm(request.baseline, request.engine) if request.baseline else None
    if request.arms:
        arms = tuple(map(parse_arm, request.arms))
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
        points=tuple(points(request.params)),
        precision=request.precision,
        budget=request.budget,
        control=request.control,
        timeout=request.timeout,
        interleave=slice_of(request.interleave),
        repeats=request.repeats,
        margin=request.margin,
    )
    if request.directory:
        check_directory(Path(request.directory).absolute())
    options = BackingOptions(profiles=profiles(request))
    for arm in plan.arms:
        find_profile(arm.filesystem, options)
    return plan


def profiles(request: Request) -> Mapping[str, Profile]:
    """The bundled filesystem profiles and the user's own, which may replace them."""
    return {**bundled(), **recorded(request.profiles)}
