"""The record of a storage driver: all facts known before a trial. Pure data; kit.model.drivers has the records. Arms,
engines, guests, doctor, reports and help use them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

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
