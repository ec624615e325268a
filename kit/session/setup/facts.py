"""The facts on which a session's numbers depend, as text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from kit.analysis.runs.disturbance import RULE
from kit.arms.image import Image
from kit.host.cgroup.cgroup import machine_cpu
from kit.host.cgroup.counters import EnergyMeter, machine_energy
from kit.host.git import ci_commit, find_commit, left_out
from kit.host.machine import Host
from kit.model import fact
from kit.model.fact import Fact
from kit.model.plan import Plan
from kit.model.scenario import Scenario
from kit.model.session import Request
from kit.session.setup.caches import DROP_CACHES


def session_facts(host: Host, plan: Plan, scenarios: Mapping[str, Scenario], image: Image | None) -> list[Fact]:
    """Return the facts on which numbers depend, as text, with those that this machine cannot give."""
    permitted = plan.cache == "warm" or os.access(DROP_CACHES, os.W_OK)
    return [
        *machine_facts(host),
        fact.CGROUPS.fact(host.cgroup_mode),
        fact.CPU_SOURCE.fact(machine_cpu()[1]),
        *_energy(machine_energy()),
        fact.OVERLAY.fact(", ".join(f"{key}={value}" for key, value in host.overlay) or "no module parameters"),
        fact.CACHES.fact(plan.cache if permitted else "cold was requested, but dropping caches is not permitted here"),
        fact.ROUNDS.fact(_stopping_rule(plan)),
        fact.SEED.fact(str(plan.seed)),
        fact.FRESH.fact("per run" if plan.fresh else "per session"),
        fact.PARAMETERS.fact(_parameters(scenarios)),
        fact.DISTURBANCE_RULE.fact(RULE),
        fact.IMAGE.fact(f"{image.name} {image.digest[:12]} ({image.origin})" if image else "none: the host itself"),
        *_lacking(host),
    ]


def version_facts(request: Request) -> Iterator[Fact]:
    """Return the facts that say what is built: the user's labels, each of several commands, the commits of the sources
    with what Git leaves out of them, and that of the CI. Raises RunError."""
    for key, text in request.labels:
        yield fact.LABEL.fact(text, key)
    for name, text in request.commands:
        yield fact.COMMAND.fact(text, name)
    for name, commit in request.revisions:
        yield fact.REVISION.fact(commit, name)
        if without := left_out(request.source, commit):
            yield fact.LEFT_OUT.fact(without, name)
    if not request.revisions and (commit := find_commit(_workload(request))):
        yield fact.COMMIT.fact(commit)
    if commit := ci_commit():
        yield fact.CI_COMMIT.fact(commit)


def _workload(request: Request) -> Path | None:
    """Return the directory of a command's sources, or of a scenario file; None for a bundled scenario."""
    if request.own_command:
        return Path(request.source) if request.source else Path()
    path, toml, _ = request.scenario.rpartition(".toml")
    return Path(path).parent if toml else None


def machine_facts(host: Host) -> list[Fact]:
    """Return the facts of the machine itself, whatever runs on it."""
    cores = "1 core" if host.cores == 1 else f"{host.cores} cores"
    return [
        fact.KERNEL.fact(host.kernel),
        fact.DISTRIBUTION.fact(host.distribution),
        fact.CPU.fact(f"{host.cpu}, {cores}, microcode {host.microcode}, governor {host.governor}"),
        fact.VIRTUALIZATION.fact(host.virtualization),
        fact.MEMORY.fact(f"{host.memory_bytes / 2**30:.1f} GiB"),
        fact.MACHINE.fact(host.machine),
    ]


def _stopping_rule(plan: Plan) -> str:
    if not plan.open_ended:
        return str(plan.rounds)
    rule = [f"at least {plan.rounds}"]
    rule += [f"until every interval is within ±{plan.precision:.2%} of its ratio"] if plan.precision else []
    rule += [f"as long as a budget of {plan.budget:.0f} s lasts"] if plan.budget else []
    return ", ".join(rule)


def _energy(meter: EnergyMeter) -> Iterator[Fact]:
    """Return the packages whose energy is counted; nothing on a machine without counters, as virtual ones are."""
    if meter.source:
        yield fact.ENERGY_SOURCE.fact(f"unreadable: {meter.reason}" if meter.reason else meter.source)


def _lacking(host: Host) -> Iterator[Fact]:
    """Return the figures that will be null, each with the reason."""
    if not Path("/proc/pressure").is_dir():
        yield fact.NO_PSI.fact("this kernel has no /proc/pressure (CONFIG_PSI, or psi=1 at boot)")
    if host.cgroup_mode == "none":
        yield fact.NO_CGROUP_CPU.fact("no cgroup hierarchy is mounted")
    elif not host.root:
        yield fact.NO_CGROUP_CPU_ON_HOST.fact("making a cgroup needs root")


def _parameters(scenarios: Mapping[str, Scenario]) -> str:
    """Return ``jobs=1,2,4, config=tinyconfig``: each parameter with its value, or all its values."""
    values: dict[str, dict[str, None]] = {}
    for scenario in scenarios.values():
        for name, value in scenario.values:
            values.setdefault(name, {})[value] = None
    return ", ".join(f"{name}={','.join(texts)}" for name, texts in values.items()) or "none"
