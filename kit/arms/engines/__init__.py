"""Engines: the programs that run an arm. Each has one file behind the protocol in ``engine``, ``bare`` included.

Imports probe, image, filesystem and host, and the packages model and core."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable

from kit.arms.engines.backing_root import BackingRoot
from kit.arms.engines.engine import Blocker, Engine, EngineConfig
from kit.arms.engines.sandbox import Sandbox
from kit.core.errors import UsageError
from kit.extensions import EXTRAS
from kit.model.arm import BUILD, OCI_RUNTIMES, Arm
from kit.model.drivers import DRIVERS

#: Each engine, extras' too, and what makes it, imported on use. Arms without a container belong to ``bare``.
ENGINES = {
    "bare": "kit.arms.engines.bare:BareEngine",
    "docker": "kit.arms.engines.docker:DOCKER_ENGINE",
    "union": "kit.arms.engines.union:UnionEngine",
    "containerd": "kit.arms.engines.containerd:CONTAINERD",
    "podman": "kit.arms.engines.podman:PODMAN",
    "nested": "kit.arms.engines.nested:NestedEngine",
    "system": "kit.arms.engines.system:SystemEngine",
    **{name: extra.full_name(maker) for extra in EXTRAS for name, maker in extra.engines.items()},
}


def make_engine(name: str, setting: EngineConfig) -> Engine:
    """Return the engine of an arm. ``docker@26.1`` is that version of Docker, in an engine root. Raises UsageError if
    it is an extra's that is missing."""
    name, _, version = name.partition("@")
    if name not in ENGINES:
        raise UsageError(f"this kit has no engine '{name}'", f"use one of: {', '.join(ENGINES)}")
    maker: Callable[..., Engine] = pkgutil.resolve_name(ENGINES[name])
    if name == "nested":
        return maker(setting, make_engine)  # of its outer and inner engines
    return maker(setting, version) if version else maker(setting)


def engine_name(arm: Arm) -> str:
    """Return the key of the arm's engine, with its version."""
    if arm.placement == "union":
        return "union"
    if arm.outer:
        return "nested"
    if arm.placement == BUILD:
        engine, at, version = arm.engine.partition("@")
        return f"{engine}-build{at}{version}"
    return arm.engine if arm.contained else "bare"


def programs() -> frozenset[str]:
    """Return the programs of all engines and drivers whose versions sessions record."""
    tools = (tool for path in ENGINES.values() for tool in getattr(pkgutil.resolve_name(path), "tools", ()))
    packages = (program for drivers in DRIVERS.values() for driver in drivers for program in driver.packages)
    return frozenset((*tools, *packages, *OCI_RUNTIMES))


__all__ = [
    "ENGINES", "BackingRoot", "Blocker", "Engine", "EngineConfig", "Sandbox", "engine_name", "make_engine", "programs",
]  # fmt: skip
