"""Detects copy-ups from outside: files from a lower layer that are new in a union's upper directory after a phase.
Files that were copied and removed within the phase are not detected."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kit.host.cgroup.cgroup import Cgroup
from kit.host.mounts import Mount, read_mounts
from kit.model.call import COPY_UP, DIRECTORY, FILE, UNSEEN, Call
from kit.model.sample import Phase
from kit.trace.tracer import Traced

#: Overlay's marks of a copied file (Documentation/filesystems/overlayfs.rst), and of a file whose data are not copied
#: yet.
_ORIGIN, _METACOPY = ("trusted.overlay.origin", "user.overlay.origin"), "trusted.overlay.metacopy"
#: Filesystems that copy up.
_UNIONS = ("overlay", "fuse.fuse-overlayfs", "fuse.unionfs", "fuse.unionfs-fuse", "aufs", "unionfs")


@dataclass(frozen=True)
class Layers:
    """The directories of a union. ``noted``: its upper directory itself marks copies."""

    upper: Path
    lower: tuple[Path, ...]
    noted: bool


@dataclass
class Copied:
    calls: tuple[Call, ...] = ()

    def add_to(self, phase: Phase) -> Phase:
        return replace(phase, calls=(*phase.calls, *self.calls))


class CopyUpTracer:
    """Watches the upper directories of the unions that the arm's processes see; without unions it watches nothing."""

    @contextmanager
    def around(self, traced: Traced) -> Iterator[Copied]:
        listed, unseen = find_layers(mounts_of(traced.group))
        before = [frozenset(_inode(entry) for entry in entries(layers.upper)) for layers in listed]
        made = Copied()
        yield made
        found = [call for layers, known in zip(listed, before, strict=True) for call in copy_ups(layers, known)]
        made.calls = (*found, *([Call(UNSEEN, unseen, kind=COPY_UP)] if unseen else ()))


def mounts_of(group: Cgroup | None) -> tuple[Mount, ...]:
    """Return the filesystems mounted where processes of the group see them, each once."""
    found: dict[str, Mount] = {}
    for pid in sorted(group.pids()) if group else ():
        with suppress(OSError):  # the process has ended
            found |= {mount.device: mount for mount in read_mounts(pid)}
    return tuple(found.values())


def find_layers(mounts: Sequence[Mount]) -> tuple[tuple[Layers, ...], int]:
    """Return the writable unions among them, and the number of those whose upper directory is not found."""
    seen: dict[Path, Layers] = {}
    unseen = 0
    for mount in filter(_may_copy_up, mounts):
        layers = _layers(mount)
        if layers and layers.upper.is_dir():
            seen[layers.upper] = layers
        else:
            unseen += mount.type in _UNIONS
    return tuple(seen.values()), unseen


def _may_copy_up(mount: Mount) -> bool:
    """Return whether a mount is a writable union, or possibly one of a FUSE daemon."""
    if mount.type == "overlay":
        return parse_layers(mount.shared, noted=True) is not None
    return mount.type.startswith(("fuse", *_UNIONS)) and "ro" not in mount.options.split(",")


def _layers(mount: Mount) -> Layers | None:
    if mount.type == "overlay":
        found = parse_layers(mount.shared, noted=True)
        return from_home(found, [item.path for item in read_mounts() if item.device == mount.device]) if found else None
    return _of_daemon(mount) if mount.type.startswith("fuse") else None


def parse_layers(options: str, noted: bool) -> Layers | None:
    """Return the directories in mount options; None if they name no upper directory."""
    named = [option.partition("=") for option in options.split(",")]
    upper = next((Path(value) for key, _, value in named if key == "upperdir"), None)
    listed = [value for key, _, value in named if key in ("lowerdir", "lowerdir+")]
    lower = [Path(part) for value in listed for part in value.split(":") if part]
    return Layers(upper, tuple(lower), noted) if upper else None


def from_home(layers: Layers, mounted: Sequence[Path]) -> Layers:
    """Return the real directory of a relative name. With many layers Docker names them relative to its working
    directory, which the mount table does not show: it is a parent of the path where the union is ``mounted``."""
    for home in (parent for path in mounted for parent in path.parents):
        if (home / layers.upper).is_dir():
            return Layers(home / layers.upper, tuple(home / path for path in layers.lower), layers.noted)
    return layers


def _of_daemon(mount: Mount) -> Layers | None:
    """Return the directories of a FUSE mount from its daemon's command line: the mount does not show them."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().rstrip(b"\0").split(b"\0")
            options = next((os.fsdecode(word) for word in words if b"upperdir=" in word), "")
            if options and _device(path.parent / "root" / os.fsdecode(words[-1]).lstrip("/")) == mount.device:
                return parse_layers(options, noted=False)
    return None


def _device(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    """Yield all files and directories below, without following any."""
    waiting = [str(directory)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as listed:
            for entry in listed:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _inode(entry: os.DirEntry[str]) -> int:
    return entry.inode()


def copy_ups(layers: Layers, known: frozenset[int]) -> Iterator[Call]:
    """Return rows of copied files and directories, except those with known inodes."""
    count, size = {FILE: 0, DIRECTORY: 0}, 0
    for entry in entries(layers.upper):
        if entry.inode() in known:
            continue
        path, status = Path(entry.path), entry.stat(follow_symlinks=False)
        beneath = _lower(layers.lower, path.relative_to(layers.upper))
        if stat.S_ISCHR(status.st_mode) or not (_is_copy(path) if layers.noted else beneath):
            continue  # a whiteout, or created here
        kind = DIRECTORY if stat.S_ISDIR(status.st_mode) else FILE
        count[kind] += 1
        if stat.S_ISREG(status.st_mode) and not _has(path, _METACOPY):
            size += beneath.st_size if beneath else status.st_size
    for kind, many in count.items():
        if many:
            yield Call(kind, many, bytes=size if kind == FILE else 0, kind=COPY_UP)


def _is_copy(path: Path) -> bool:
    return any(_has(path, name) for name in _ORIGIN)


def _has(path: Path, name: str) -> bool:
    with suppress(OSError):
        os.getxattr(path, name, follow_symlinks=False)
        return True
    return False


def _lower(lower: Sequence[Path], name: Path) -> os.stat_result | None:
    """Return the file below in the highest layer with that name; a renamed file's is not found."""
    for directory in lower:
        with suppress(OSError):
            return (directory / name).lstat()
    return None
