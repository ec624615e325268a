"""Every engine's name, and every driver: one record each, registered below by its engine. For a new driver, add a file,
or a record in a related file, and an entry here. Imports kit.model.driver alone."""

from __future__ import annotations

from collections.abc import Iterator

from kit.model.default import DEFAULT_ENGINE
from kit.model.driver import Driver
from kit.model.drivers.aufs import AUFS
from kit.model.drivers.blockfile import BLOCKFILE
from kit.model.drivers.btrfs import BTRFS
from kit.model.drivers.copies import DOCKER_NATIVE, NATIVE, VFS
from kit.model.drivers.device_mapper import DEVICEMAPPER, DEVMAPPER
from kit.model.drivers.erofs import EROFS
from kit.model.drivers.fuse import (
    CONTAINERD_FUSE_OVERLAYFS,
    DOCKER_STARGZ,
    FUSE_OVERLAYFS,
    MERGERFS,
    NYDUS,
    STARGZ,
    UNIONFS_FUSE,
)
from kit.model.drivers.overlay import (
    BUILDAH_OVERLAY,
    BUILDKIT_OVERLAYFS,
    DOCKER_OVERLAYFS,
    OVERLAY,
    OVERLAY2,
    OVERLAYFS,
    UNION_OVERLAY,
)
from kit.model.drivers.zfs import CONTAINERD_ZFS, ZFS

UNION = "union"
#: Drivers of each engine, in the order in which they are named and tried.
DRIVERS: dict[str, tuple[Driver, ...]] = {
    "docker": (
        OVERLAY2, BTRFS, VFS, FUSE_OVERLAYFS, AUFS, DEVICEMAPPER, ZFS,
        DOCKER_OVERLAYFS, DOCKER_NATIVE, DOCKER_STARGZ,
    ),
    "podman": (OVERLAY, VFS, BTRFS, FUSE_OVERLAYFS),
    "containerd": (
        OVERLAYFS, NATIVE, BTRFS, DEVMAPPER, CONTAINERD_ZFS, BLOCKFILE, EROFS,
        CONTAINERD_FUSE_OVERLAYFS, STARGZ, NYDUS,
    ),
    "buildah": (BUILDAH_OVERLAY, VFS),
    "buildkit": (BUILDKIT_OVERLAYFS, NATIVE, FUSE_OVERLAYFS),
    UNION: (UNION_OVERLAY, UNIONFS_FUSE, MERGERFS),
}  # fmt: skip
#: The running Docker: its drivers are Docker's, and its settings are the user's.
SYSTEM = "system"
ENGINES = (*(engine for engine in DRIVERS if engine != UNION), SYSTEM)
#: Possible engines of an arm that names none, as help and errors name them.
SESSION_ENGINES = (DEFAULT_ENGINE, f"{DEFAULT_ENGINE}@VERSION", SYSTEM)
#: Engines that build images; of these, the ones that do nothing else.
BUILDERS, BUILD_ONLY = ("docker", "podman", "buildah", "buildkit"), ("buildah", "buildkit")
#: Engines available in other versions, in roots of their own.
VERSIONED = ("docker", "containerd", "podman", "buildkit")


def drivers(engine: str) -> tuple[Driver, ...]:
    """Return the drivers of ``docker``, ``docker@26.1``, ``union`` …; the running Docker has Docker's."""
    return DRIVERS.get(engine.partition("@")[0], DRIVERS[DEFAULT_ENGINE])


def is_session_engine(engine: str) -> bool:
    """Return whether arms that name no engine may have this one."""
    return engine == SYSTEM or engine.partition("@")[0] == DEFAULT_ENGINE


def graph_drivers() -> tuple[Driver, ...]:
    """Return Docker's own drivers, without snapshotters of containerd."""
    return tuple(driver for driver in drivers(DEFAULT_ENGINE) if not driver.image_store)


def find_driver(engine: str, name: str) -> Driver | None:
    return next((driver for driver in drivers(engine) if driver.name == name), None)


def registered() -> Iterator[tuple[str, Driver]]:
    """Return each driver as an arm names it, ENGINE/DRIVER, with its record. Unions are left out."""
    for engine, of_engine in DRIVERS.items():
        if engine != UNION:
            yield from ((arm_words(engine, driver.name), driver) for driver in of_engine)


def default_placement(engine: str) -> str:
    """Return the placement by which an engine's drivers are tried and compared."""
    return "build" if engine.partition("@")[0] in BUILD_ONLY else "layer"


def arm_words(engine: str, name: str) -> str:
    """Return ENGINE/DRIVER, without the version; without the engine for Docker."""
    engine = engine.partition("@")[0]
    return name if engine in ("", DEFAULT_ENGINE) else f"{engine}/{name}"


def in_guest_kernel(recipe: str) -> tuple[str, ...]:
    """Return the drivers that only this recipe's kernel and the user's own have."""
    return tuple(arm for arm, driver in registered() if driver.guest_kernel == recipe)


def handing_on(feature: str) -> tuple[str, ...]:
    """Return the drivers of engines that mount with this feature, with the engine's version if not all do."""
    return tuple(
        f"{engine}{'@' if driver.features_root else ''}{driver.features_root}/{driver.name}"
        for engine, of_engine in DRIVERS.items()
        for driver in of_engine
        if engine != UNION and feature in driver.features.known
    )


def kernel_modules() -> tuple[str, ...]:
    """Return the modules that any driver may need."""
    parts = (driver.kernel for of_engine in DRIVERS.values() for driver in of_engine)
    return tuple(dict.fromkeys(module for part in parts if part for module in part.modules))


def fuse_daemons() -> tuple[str, ...]:
    """Return the programs by which drivers mount through FUSE: their work counts as the driver's."""
    all_drivers = (driver for of_engine in DRIVERS.values() for driver in of_engine)
    programs = (driver.packages for driver in all_drivers if driver.kernel and driver.kernel.listed == "fuse")
    return tuple(dict.fromkeys(name for packages in programs for name in packages))
