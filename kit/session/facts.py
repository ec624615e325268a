"""The facts of a session that its numbers depend on, as text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kit.analysis.burst import RULE
from kit.host.cgroup import machine_cpu
from kit.host.machine import Host
from kit.image import Image
from kit.model.plan import Plan
from kit.model.scenario import Scenario
from kit.session.loop import DROP_CACHES


def session_facts(host: Host, plan: Plan, scenarios: Mapping[str, Scenario], image: Image | None) -> dict[str, str]:
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
        "machine CPU from": machine_cpu()[1],
        "overlay": ", ".join(f"{key}={value}" for key, value in host.overlay) or "no module parameters",
        "caches": plan.cache if permitted else "cold was asked for, but dropping caches is not permitted here",
        "rounds": _stopping_rule(plan),
        "seed": str(plan.seed),
        "fresh filesystem": "per run" if plan.fresh else "per session",
        "parameters": _parameters(scenarios),
        "burst rule": str(RULE),
        "image": f"{image.name} {image.digest[:12]} ({image.origin})" if image else "none: the host itself",
        **lacking(host),
    }


def _stopping_rule(plan: Plan) -> str:
    if not plan.sequential:
        return str(plan.rounds)
    rule = [f"at least {plan.rounds}"]
    rule += [f"until every interval is within ±{plan.precision:.2%} of its ratio"] if plan.precision else []
    rule += [f"as long as a budget of {plan.budget:.0f} s lasts"] if plan.budget else []
    return ", ".join(rule)


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


def _parameters(scenarios: Mapping[str, Scenario]) -> str:
    """``jobs=1,2,4, config=tinyconfig``: each parameter with its value, or all that it takes in turn."""
    values: dict[str, dict[str, None]] = {}
    for scenario in scenarios.values():
        for name, value in scenario.values:
            values.setdefault(name, {})[value] = None
    return ", ".join(f"{name}={','.join(found)}" for name, found in values.items()) or "none"
