"""The default driver of each engine: the one owner of that knowledge. Pure; kit.engines.installed
asks the machine.

Docker 24 brought containerd's image store as a feature; since Docker 29 new installations use it, with the snapshotter
overlayfs. A daemon whose data-root has data of a graph driver keeps that driver (moby, daemon/image_store_choice.go and
graphdriver/driver.go: any but vfs counts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kit.model.default import DEFAULT_ENGINE
from kit.model.driver import version_number
from kit.model.drivers import SYSTEM, arm_words, find_driver, graph_drivers

#: Docker's driver in its image store, and the one without.
IMAGE_STORE, GRAPH_DRIVER = "overlayfs", "overlay2"
#: The first version of Docker that has the image store, and the first that uses it by default.
IMAGE_STORE_SINCE, IMAGE_STORE_DEFAULT_SINCE = 24, 29
#: The common choices of each engine.
_COMMON = {DEFAULT_ENGINE: (GRAPH_DRIVER, IMAGE_STORE), "podman": ("overlay",), "containerd": ("overlayfs",)}
#: Its data does not keep Docker from the image store.
_NOT_KEPT = "vfs"


@dataclass(frozen=True)
class Docker:
    """A Docker, as far as its default driver depends on it."""

    version: str = ""  # '' if it is missing or unknown
    #: Whether its configuration switches the image store on or off; None if it says nothing.
    configured: bool | None = None
    kept: str = ""  # the graph driver that has data in its data-root; '' without one

    @property
    def has_image_store(self) -> bool:
        """Return whether it can keep its images in containerd."""
        return version_number(self.version) >= (IMAGE_STORE_SINCE,)

    @property
    def keeps(self) -> bool:
        """Return whether it stays without the image store only because a graph driver has data."""
        return bool(self.kept) and self.configured is None and self._is_new

    @property
    def _is_new(self) -> bool:
        return version_number(self.version) >= (IMAGE_STORE_DEFAULT_SINCE,)

    @property
    def driver(self) -> str:
        """Return its default driver; of graph drivers the common one, whichever it keeps."""
        uses_image_store = self._is_new and not self.keeps if self.configured is None else self.configured
        return IMAGE_STORE if uses_image_store and self.has_image_store else GRAPH_DRIVER

    @property
    def drivers(self) -> tuple[str, ...]:
        """Return its default driver, the other common one if it has it, then all other graph drivers that its version
        may have."""
        stores = (IMAGE_STORE,) if self.has_image_store else ()
        return tuple(dict.fromkeys((self.driver, *stores, *graph_drivers_of(self.version))))


def graph_drivers_of(version: str) -> tuple[str, ...]:
    """Return the graph drivers that this version of Docker may have; all for an unknown version."""
    return tuple(driver.name for driver in graph_drivers() if driver.is_in(version))


def keeping_drivers(version: str) -> tuple[str, ...]:
    """Return the graph drivers of which data in the data-root keeps this version of Docker."""
    return tuple(name for name in graph_drivers_of(version) if name != _NOT_KEPT)


def docker_of(engine: str, here: Docker) -> Docker:
    """Return the Docker that an engine names, ``docker@29``; ``here`` for the one without a version."""
    version = engine.partition("@")[2]
    return Docker(version) if version else here


def common_docker(dockers: Sequence[Docker]) -> Docker:
    """Return a Docker that stands for all of these: the oldest, which uses the image store only if all do."""
    oldest = min(dockers, key=lambda docker: version_number(docker.version), default=Docker())
    drivers = {docker.driver for docker in dockers}
    return oldest if drivers == {oldest.driver} else replace(oldest, configured=False)


def lacking(engine: str, driver: str, here: Docker) -> str:
    """Return why a version of an engine can't have a driver; '' if it may. ``here``: the Docker that ``docker``
    means."""
    name, _, version = engine.partition("@")
    if name == DEFAULT_ENGINE:
        version = docker_of(engine, here).version
    record = find_driver(engine, driver) if name != SYSTEM else None
    if record is None or record.is_in(version):
        return ""
    return f"{name} {version} has no {driver}, only {name} {record.versions} has it"


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
