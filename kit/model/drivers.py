"""Every storage driver: one record each, with all facts known before a trial, registered by its engine. Pure data.
Arms, engines, guests, doctor, reports and help use them. For a new driver, add a record and an entry in DRIVERS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kit.model.default import DEFAULT_ENGINE

#: Features of drivers that give every container a filesystem of its own.
_OWN_FILESYSTEM = (
    "each container has a filesystem and a device of its own (see the facts): where that is of another type than the "
    "bare arm's, part of the difference is the filesystem's"
)
#: Guests that may provide a driver; ``kernel`` is one that boots a kernel of the user's.
UML, QEMU, OWN_KERNEL = "uml", "qemu", "kernel"


def version_number(version: str) -> tuple[int, ...]:
    """Return ``20.10.24+dfsg1`` as (20, 10, 24); () for text that does not begin with a number."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


@dataclass(frozen=True)
class KernelPart:
    """Part of the kernel."""

    called: str  # its name in sentences
    listed: str  # its name in the file ``where`` of /proc, once it is loaded
    modules: tuple[str, ...]  # modules that provide it unless built in
    where: str = "filesystems"


@dataclass(frozen=True)
class Options:
    """Options of an arm, and patterns of their values."""

    known: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    shown: str = ""  # their form in the help
    of: str = ""  # their owner, if it is not one driver


@dataclass(frozen=True)
class ProxyPlugin:
    """A snapshotter that is a program beside containerd (containerd, docs/PLUGINS.md, proxy plugins)."""

    #: Its command line; {socket} is where it serves, {root} the directory of its snapshots.
    words: tuple[str, ...]
    #: It mounts a layer of a special format from the registry, and fetches what is read.
    lazy: bool = False


@dataclass(frozen=True)
class Driver:
    """One driver as its engine names it."""

    name: str
    #: What would make it work where its engine does not start with it;
    #: {arm} means ENGINE/DRIVER; {versions}, {root} and {kernel} stand for the fields.
    fix: str = ""
    kernel: KernelPart | None = None
    filesystem: str = ""  # the backing one that it needs; '': any will do
    #: Programs that it needs beside its engine's, and the Debian package of each; '' if Debian has none.
    packages: Mapping[str, str] = field(default_factory=dict)
    since: str = ""  # the first version of its engine that has it
    before: str = ""  # the first version of its engine that does not have it any more
    root: str = ""  # an engine root that has it
    plugin: ProxyPlugin | None = None
    unfit: Mapping[str, str] = field(default_factory=dict)  # types of filesystems that can't hold it: what then
    features: Options = Options()  # which its engine hands on to the mount
    features_root: str = ""  # an engine root that hands them on, where not all do
    options: Options = Options()  # others
    storage_options: tuple[str, ...] = ()  # which its engine is always started with
    image_store: bool = False  # a snapshotter: with it Docker keeps its images in containerd
    copies_all: bool = False  # the whole root filesystem, for every container
    own_filesystem: bool = False  # every container has one, on a device of its own
    cold_root: str = ""  # why a container reads from the disk what is in the page cache already
    note: str = ""  # what a reader of its figures must know
    guests: tuple[str, ...] = ()  # those that have it where a machine may not
    guest_kernel: str = ""  # the recipe of one that has it, where those of guests do not
    listed: bool = True  # in the help of kit compare
    tried_in_roots: bool = False  # by kit doctor, in each engine root

    @property
    def notes(self) -> tuple[str, ...]:
        """Return all notes that a reader must know."""
        return tuple(text for text in (self.note, _OWN_FILESYSTEM if self.own_filesystem else "") if text)

    @property
    def versions(self) -> str:
        """Return the versions of its engine that have it, in words; '' if all have it."""
        return f"below {self.before}" if self.before else f"{self.since} or later" if self.since else ""

    def is_in(self, version: str) -> bool:
        """Return whether this version of its engine may have it; True for an unknown version."""
        number = version_number(version)
        if not number:
            return True
        return number >= version_number(self.since) and not (self.before and number >= version_number(self.before))

    def mend(self, arm: str, on: str = "") -> str:
        """Return the fix in the words of ``arm``, ENGINE/DRIVER. ``on``: the type of the intended filesystem."""
        return self.unfit.get(on) or self.fix.format(
            arm=arm, versions=self.versions, root=self.root, kernel=self.guest_kernel
        )


# The kernel's overlay (Documentation/filesystems/overlayfs.rst), under the names that engines give it.
_OVERLAY = KernelPart("overlay (CONFIG_OVERLAY_FS)", "overlay", ("overlay",))
_OVERLAY_FIX = "boot a kernel with overlay"
_OVERLAY_ON_NFS = (
    "overlay writes to no NFS, which has no trusted.* attributes: use containerd/native, which copies all, or a disk"
)
_OVERLAY_WITHOUT_TYPES = "overlay needs file types in directories (d_type): use ext4, xfs with ftype=1 or btrfs"
_OVERLAY_ON_OVERLAY = (
    "overlay writes to no overlay: put the inner engine's data on a volume with +data-root=volume, or use the inner "
    "driver vfs or fuse-overlayfs"
)
_OVERLAY_UNFIT = {
    "nfs": _OVERLAY_ON_NFS,
    "nfs4": _OVERLAY_ON_NFS,
    "jfs": _OVERLAY_WITHOUT_TYPES,
    "reiserfs": _OVERLAY_WITHOUT_TYPES,
    "overlay": _OVERLAY_ON_OVERLAY,
}
#: Commonly tuned features.
_OVERLAY_FEATURES = Options(
    {
        "metacopy": re.compile(r"on|off"),
        "redirect_dir": re.compile(r"on|off|follow|nofollow"),
        "index": re.compile(r"on|off"),
        "xino": re.compile(r"on|off|auto"),
        "volatile": re.compile(r""),
    },
    "+metacopy=on +redirect_dir=on +index=off +xino=off +volatile",
    "the kernel's overlay",
)

OVERLAY2 = Driver("overlay2", _OVERLAY_FIX, _OVERLAY, unfit=_OVERLAY_UNFIT, tried_in_roots=True)
#: An option of Podman's storage (containers-storage.conf(5), enable_partial_images).
PARTIAL = "partial"
#: Podman's driver, which passes mount options on.
OVERLAY = Driver(
    "overlay",
    _OVERLAY_FIX,
    _OVERLAY,
    unfit=_OVERLAY_UNFIT,
    features=_OVERLAY_FEATURES,
    options=Options({PARTIAL: re.compile("")}, f"+{PARTIAL} (pulls only the missing files of zstd:chunked layers)"),
)
BUILDAH_OVERLAY = Driver("overlay", _OVERLAY_FIX, _OVERLAY, unfit=_OVERLAY_UNFIT)
BUILDKIT_OVERLAYFS = Driver("overlayfs", _OVERLAY_FIX, _OVERLAY, unfit=_OVERLAY_UNFIT)
OVERLAYFS = Driver(
    "overlayfs",
    _OVERLAY_FIX,
    _OVERLAY,
    unfit=_OVERLAY_UNFIT,
    features=_OVERLAY_FEATURES,
    features_root="2.1",
    tried_in_roots=True,
)
DOCKER_OVERLAYFS = Driver(
    "overlayfs",
    "use Docker {versions}: docker@{root}/overlayfs, or --docker PATH",
    _OVERLAY,
    since="24",
    root="26.1",
    unfit=_OVERLAY_UNFIT,
    image_store=True,
    tried_in_roots=True,
)
#: Mounted by the kit.
UNION_OVERLAY = Driver("overlay", kernel=_OVERLAY, features=_OVERLAY_FEATURES)

# Plain directories: every container has a copy of the whole root filesystem.
VFS = Driver("vfs", copies_all=True)
NATIVE = Driver("native", copies_all=True)
DOCKER_NATIVE = Driver(
    "native",
    "use Docker {versions}: docker@{root}/native, or --docker PATH",
    since="24",
    root="26.1",
    image_store=True,
    copies_all=True,
    listed=False,
    tried_in_roots=True,
)

# Snapshots of btrfs subvolumes.
BTRFS = Driver(
    "btrfs",
    "put it on btrfs: layer:{arm}@btrfs",
    KernelPart("btrfs", "btrfs", ("btrfs",)),
    filesystem="btrfs",
    cold_root="btrfs shares no page cache between a snapshot and its original",
)

# Clones of ZFS datasets.
ZFS = Driver(
    "zfs",
    "install zfs-dkms for this kernel; Debian has it in its component contrib, which apt's sources must name",
    KernelPart("zfs", "zfs", ("zfs",)),
    filesystem="zfs",
    guests=(OWN_KERNEL,),
)
CONTAINERD_ZFS = replace(ZFS, listed=False)

# Thin devices of the device mapper, a filesystem in each.
_DM_OPTIONS = "CONFIG_BLK_DEV_DM, CONFIG_DM_THIN_PROVISIONING"
_DEVICE_MAPPER = KernelPart(
    f"device-mapper ({_DM_OPTIONS})", "device-mapper", ("dm-mod", "dm-thin-pool", "dm-snapshot"), where="misc"
)
#: The option for a pool that the kit makes (direct-lvm). Otherwise dockerd makes a pool on its own loop files.
THIN_POOL = "thinpool"

DEVICEMAPPER = Driver(
    "devicemapper",
    "use a kernel with device-mapper (--guest has one) and a Docker {versions} (docker@{root}/devicemapper)",
    _DEVICE_MAPPER,
    before="25",
    root="20.10",
    options=Options({THIN_POOL: re.compile("")}, f"+{THIN_POOL} (direct-lvm: a pool without loop files of dockerd's)"),
    storage_options=("dm.override_udev_sync_check=true",),
    own_filesystem=True,
    guests=(UML, QEMU),
)
DEVMAPPER = Driver(
    "devmapper",
    f"use a kernel with device-mapper ({_DM_OPTIONS}): --guest has one",
    _DEVICE_MAPPER,
    own_filesystem=True,
    guests=(UML, QEMU),
)

# A file with a filesystem in it, copied for every snapshot.
BLOCKFILE = Driver(
    "blockfile",
    "use containerd {versions}: layer:containerd@{root}/blockfile",
    since="1.7",
    root="1.7",
    own_filesystem=True,
    tried_in_roots=True,
)

# Layers as EROFS images, with overlay above them.
EROFS = Driver(
    "erofs",
    "use containerd {versions}: layer:containerd@{root}/erofs, and a kernel with EROFS",
    KernelPart("EROFS (CONFIG_EROFS_FS)", "erofs", ("erofs",)),
    since="2.1",
    root="2.1",
    tried_in_roots=True,
)

# Unions that a program mounts through FUSE.
_FUSE = KernelPart("FUSE (CONFIG_FUSE_FS)", "fuse", ("fuse",))

#: Docker's, and Podman's overlay driver where that program mounts it.
FUSE_OVERLAYFS = Driver(
    "fuse-overlayfs",
    "use a kernel with FUSE",
    _FUSE,
    packages={"fuse-overlayfs": "fuse-overlayfs"},
)
CONTAINERD_FUSE_OVERLAYFS = Driver(
    "fuse-overlayfs",
    "use layer:containerd@{root}/fuse-overlayfs, which has the snapshotter; Debian has no package of it",
    _FUSE,
    packages={"fuse-overlayfs": "fuse-overlayfs", "containerd-fuse-overlayfs-grpc": ""},
    root="2.3",
    plugin=ProxyPlugin(("containerd-fuse-overlayfs-grpc", "{socket}", "{root}")),
)
#: Overlay over layers that a program serves through FUSE (containerd/stargz-snapshotter).
STARGZ = Driver(
    "stargz",
    "use layer:containerd@{root}/stargz, which has the snapshotter; Debian has no package of it",
    _FUSE,
    packages={"containerd-stargz-grpc": ""},
    root="2.3",
    plugin=ProxyPlugin(("containerd-stargz-grpc", "--address", "{socket}", "--root", "{root}"), lazy=True),
    note="it fetches from the registry what a container reads, where the layers have the format eStargz",
)
DOCKER_STARGZ = replace(
    STARGZ,
    fix="use layer:docker@{root}/stargz, which has the snapshotter; Debian has no package of it",
    root="29",
    image_store=True,
)
#: Overlay over the files of an image, which a program of its own serves through FUSE (containerd/nydus-snapshotter).
NYDUS = Driver(
    "nydus",
    "use layer:containerd@{root}/nydus, which has it and nydusd; Debian has no package of nydusd",
    _FUSE,
    packages={"containerd-nydus-grpc": "", "nydusd": ""},
    root="2.1-nydus",
    plugin=ProxyPlugin(
        ("containerd-nydus-grpc", "--address", "{socket}", "--root", "{root}", "--log-to-stdout"), lazy=True
    ),
    note="it fetches from the registry what a container reads, where the image has an index in the format of Nydus",
)
UNIONFS_FUSE = Driver("unionfs-fuse", kernel=_FUSE, packages={"unionfs-fuse": "unionfs-fuse"})
MERGERFS = Driver("mergerfs", kernel=_FUSE, packages={"mergerfs": "mergerfs"})

# aufs: the union that Docker began with; no kernel of kernel.org's has it.
AUFS = Driver(
    "aufs",
    "use a kernel with aufs (kit kernel build {kernel}, then --guest) and a Docker {versions} (docker@{root}/aufs)",
    KernelPart("aufs", "aufs", ("aufs",)),
    before="24",
    root="20.10",
    guests=(OWN_KERNEL,),
    guest_kernel="aufs",
)

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


# The default driver of each engine: the one owner of that knowledge. kit.arms.engines.installed asks the machine.
# Docker 24 brought containerd's image store as a feature; since Docker 29 new installations use it, with the
# snapshotter overlayfs. A daemon whose data-root has data of a graph driver keeps that driver (moby,
# daemon/image_store_choice.go and graphdriver/driver.go: any but vfs counts).

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
