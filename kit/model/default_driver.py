"""The default driver of each engine: the one owner of that knowledge. Pure; kit.engines.installed
asks the machine.

Docker 24 brought containerd's image store as a feature; since Docker 29 new installations use it, with the snapshotter
overlayfs. A daemon that has run with a graph driver keeps that after an upgrade (moby, daemon/image_store_choice.go).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kit.model.drivers import DEFAULT_ENGINE, arm_words, graph_drivers

#: Docker's driver in its image store, and the one without.
IMAGE_STORE, GRAPH_DRIVER = "overlayfs", "overlay2"
#: The first version of Docker that has the image store, and the first that uses it by default.
IMAGE_STORE_SINCE, IMAGE_STORE_DEFAULT_SINCE = 24, 29
#: The common choices of each engine.
_COMMON = {DEFAULT_ENGINE: (GRAPH_DRIVER, IMAGE_STORE), "podman": ("overlay",), "containerd": ("overlayfs",)}


@dataclass(frozen=True)
class Docker:
    """A Docker, as far as its default driver depends on it. ``version``: '' if it is missing or unknown.
    ``configured``: whether its configuration switches the image store on or off; None if it says nothing."""

    version: str = ""
    configured: bool | None = None

    @property
    def has_image_store(self) -> bool:
        """Return whether it can keep its images in containerd."""
        return _major(self.version) >= IMAGE_STORE_SINCE

    @property
    def driver(self) -> str:
        """Return its default driver."""
        wanted = _major(self.version) >= IMAGE_STORE_DEFAULT_SINCE if self.configured is None else self.configured
        return IMAGE_STORE if wanted and self.has_image_store else GRAPH_DRIVER

    @property
    def drivers(self) -> tuple[str, ...]:
        """Return its default driver, the other common one if it has it, then all other graph drivers."""
        stores = (IMAGE_STORE,) if self.has_image_store else ()
        return tuple(dict.fromkeys((self.driver, *stores, *(driver.name for driver in graph_drivers()))))


def _major(version: str) -> int:
    found = re.match(r"\d+", version)
    return int(found[0]) if found else 0


def docker_of(engine: str, here: Docker) -> Docker:
    """Return the Docker that an engine names, ``docker@29``; ``here`` for the one without a version."""
    version = engine.partition("@")[2]
    return Docker(version) if version else here


def default_driver(engine: str, here: Docker) -> str:
    """Return the default driver of ``docker``, ``docker@29``, ``podman`` …; '' for an unknown engine. ``here``: the
    Docker that ``docker`` means."""
    name = engine.partition("@")[0]
    if name == DEFAULT_ENGINE:
        return docker_of(engine, here).driver
    return next(iter(_COMMON.get(name, ())), "")


def is_common(engine: str, driver: str) -> bool:
    """Return whether many people run the engine with this driver."""
    return driver in _COMMON.get(engine.partition("@")[0], ())


def common_drivers() -> tuple[str, ...]:
    """Return the common choices as arms name them, ENGINE/DRIVER, the most common first."""
    return tuple(arm_words(engine, name) for engine, names in _COMMON.items() for name in names)
