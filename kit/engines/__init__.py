"""Engines: what runs an arm. One file each behind the protocol in engine, ``bare`` included.

Imports probe, image, filesystem and host, and words (model, core); ``engine`` says what one must do.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable

from kit.engines.engine import Blocker, Engine, Setting
from kit.engines.ground import Ground
from kit.engines.place import Place
from kit.model.arm import Arm

#: Each engine and its class, imported on use. Arms without a container belong to ``bare``.
ENGINES = {
    "bare": "kit.engines.bare:BareEngine",
    "docker": "kit.engines.docker:DockerEngine",
    "union": "kit.engines.union:UnionEngine",
    "containerd": "kit.engines.containerd:ContainerdEngine",
    "podman": "kit.engines.podman:PodmanEngine",
    "system": "kit.engines.system:SystemEngine",
}


def make_engine(name: str, setting: Setting) -> Engine:
    """``docker@26.1`` is that version of it, in an engine root."""
    name, _, version = name.partition("@")
    maker: Callable[..., Engine] = pkgutil.resolve_name(ENGINES[name])
    return maker(setting, version) if version else maker(setting)


def engine_name(arm: Arm) -> str:
    if arm.placement == "union":
        return "union"
    return arm.engine if arm.contained else "bare"


__all__ = ["ENGINES", "Blocker", "Engine", "Ground", "Place", "Setting", "engine_name", "make_engine"]
