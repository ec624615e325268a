"""Detects copy-ups from outside: files from a lower layer that are new in a union's upper directory after a phase.
Files that were copied and removed within the phase are not detected."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kit.extra.tracing.file_data import handle, own_data
from kit.host.cgroup.cgroup import Cgroup
from kit.host.mounts import Mount, read_mounts
from kit.model.sample import COPY_UP, DIRECTORY, FILE, NO_DATA, UNMARKED, UNSEEN, WITH_DATA, Call, Phase
from kit.session.measure.tracer import Traced

#: Prefixes of the attributes with which unions mark copied files, and files whose data are not copied yet: overlay as
#: root and with the option userxattr (Documentation/filesystems/overlayfs.rst), and fuse-overlayfs.
OVERLAY, USER_OVERLAY, FUSE_OVERLAYFS = "trusted.overlay.", "user.overlay.", "user.fuseoverlayfs."
_ORIGIN, _METACOPY = "origin", "metacopy"
#: Filesystems without shared data: all of a file's data are its own. They list no extents.
_UNSHARED = ("tmpfs", "ramfs")
#: Filesystems that copy up.
_UNIONS = ("overlay", "fuse.fuse-overlayfs", "fuse.unionfs", "fuse.unionfs-fuse", "aufs", "unionfs")


@dataclass(frozen=True)
class Layers:
    """The directories of a union. ``marks``: the prefix of the attributes with which it marks copies."""

    upper: Path
    lower: tuple[Path, ...]
    marks: str


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
        before = [handles(layers.upper) for layers in listed]
        recording = Copied()
        yield recording
        copies = [call for layers, earlier in zip(listed, before, strict=True) for call in copy_ups(layers, earlier)]
        recording.calls = (*copies, *([Call(UNSEEN, unseen, kind=COPY_UP)] if unseen else ()))


def mounts_of(group: Cgroup | None) -> tuple[Mount, ...]:
    """Return the filesystems mounted where processes of the group see them, each once."""
    mounts: dict[str, Mount] = {}
    for pid in sorted(group.pids()) if group else ():
        with suppress(OSError):  # the process has ended
            mounts |= {mount.device: mount for mount in read_mounts(pid)}
    return tuple(mounts.values())


def find_layers(mounts: Sequence[Mount]) -> tuple[tuple[Layers, ...], int]:
    """Return the writable unions among them, and the number of those whose upper directory is not found."""
    unions: dict[Path, Layers] = {}
    unseen = 0
    for mount in filter(_may_copy_up, mounts):
        layers = _layers(mount)
        if layers and layers.upper.is_dir():
            unions[layers.upper] = layers
        else:
            unseen += mount.type in _UNIONS
    return tuple(unions.values()), unseen


def _may_copy_up(mount: Mount) -> bool:
    """Return whether a mount is a writable union, or possibly one of a FUSE daemon."""
    if mount.type == "overlay":
        return parse_layers(mount.shared, OVERLAY) is not None
    return mount.type.startswith(("fuse", *_UNIONS)) and "ro" not in mount.options.split(",")


def _layers(mount: Mount) -> Layers | None:
    if mount.type == "overlay":
        marks = USER_OVERLAY if "userxattr" in mount.shared.split(",") else OVERLAY
        layers = parse_layers(mount.shared, marks)
        if layers is None:
            return None
        return from_home(layers, [other.path for other in read_mounts() if other.device == mount.device])
    return _of_daemon(mount) if mount.type.startswith("fuse") else None


def parse_layers(options: str, marks: str) -> Layers | None:
    """Return the directories in mount options; None if they name no upper directory."""
    pairs = [option.partition("=") for option in options.split(",")]
    upper = next((Path(value) for key, _, value in pairs if key == "upperdir"), None)
    listed = [value for key, _, value in pairs if key in ("lowerdir", "lowerdir+")]
    lower = [Path(part) for value in listed for part in value.split(":") if part]
    return Layers(upper, tuple(lower), marks) if upper else None


def from_home(layers: Layers, mounted: Sequence[Path]) -> Layers:
    """Return the real directory of a relative name. With many layers Docker names them relative to its working
    directory, which the mount table does not show: it is a parent of the path where the union is ``mounted``."""
    for home in (parent for path in mounted for parent in path.parents):
        if (home / layers.upper).is_dir():
            return Layers(home / layers.upper, tuple(home / path for path in layers.lower), layers.marks)
    return layers


def _of_daemon(mount: Mount) -> Layers | None:
    """Return the directories of a FUSE mount from its daemon's command line: the mount does not show them."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().rstrip(b"\0").split(b"\0")
            options = next((os.fsdecode(word) for word in words if b"upperdir=" in word), "")
            if options and _device(path.parent / "root" / os.fsdecode(words[-1]).lstrip("/")) == mount.device:
                return parse_layers(options, FUSE_OVERLAYFS)
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


def handles(directory: Path) -> frozenset[bytes]:
    """Return the handles of all files and directories below."""
    return frozenset(handle(entry.path, entry.inode()) for entry in entries(directory))


@dataclass(frozen=True)
class _New:
    """A file or directory that is new in an upper directory. ``beneath``: what has its name in a lower layer."""

    path: Path
    status: os.stat_result
    beneath: os.stat_result | None


def copy_ups(layers: Layers, known: frozenset[bytes]) -> Iterator[Call]:
    """Return rows of copied files and directories, except those with known handles."""
    count, size, data = Counter[str](), 0, 0
    marked = _can_mark(layers)
    device = _device(layers.upper)
    unshared = any(mount.device == device and mount.type in _UNSHARED for mount in read_mounts())
    for new in _new(layers, known):
        name = _object(new, layers.marks, marked)
        count[name] += bool(name)
        if name != FILE or not stat.S_ISREG(new.status.st_mode) or _has(new.path, layers.marks + _METACOPY):
            continue
        beneath = (new.beneath or new.status).st_size
        size += beneath
        copied = _copied_at_most(new, beneath, unshared)
        count[NO_DATA if copied is None else WITH_DATA] += 1
        data += copied or 0
    sizes = {FILE: size, WITH_DATA: data}
    for name in filter(count.get, (FILE, DIRECTORY, UNMARKED, WITH_DATA, NO_DATA)):
        yield Call(name, count[name], bytes=sizes.get(name, 0), kind=COPY_UP)


def _new(layers: Layers, known: frozenset[bytes]) -> Iterable[_New]:
    """Return the new files, each once: a file may have several names, some without a file beneath."""
    listed: dict[bytes, _New] = {}
    for entry in entries(layers.upper):
        mark = handle(entry.path, entry.inode())
        if mark in known:
            continue
        with suppress(FileNotFoundError):  # a daemon of the arm may go on
            path, status = Path(entry.path), entry.stat(follow_symlinks=False)
            beneath = _lower(layers.lower, path.relative_to(layers.upper))
            if mark not in listed or listed[mark].beneath is None:
                listed[mark] = _New(path, status, beneath)
    return listed.values()


def _object(new: _New, marks: str, marked: bool) -> str:
    """Return which object of copy-ups a file is; '' if it was created."""
    mode, beneath = new.status.st_mode, new.beneath
    if stat.S_ISCHR(mode) and not new.status.st_rdev:
        return ""  # a whiteout
    name = DIRECTORY if stat.S_ISDIR(mode) else FILE
    if _has(new.path, marks + _ORIGIN):
        return name
    if beneath is None or stat.S_IFMT(beneath.st_mode) != stat.S_IFMT(mode):
        return ""
    if name == DIRECTORY:
        return name if marks == FUSE_OVERLAYFS else ""  # which marks no directory
    if not (marked and _marks(marks, beneath)):
        return FILE if _has_times(new.status, beneath) else UNMARKED
    return ""


def _marks(marks: str, beneath: os.stat_result) -> bool:
    """Return whether the union marks the copy of this file. The kernel marks none of a file with several names, but
    with the option index; user attributes are only of regular files and directories (xattr(7))."""
    if stat.S_ISREG(beneath.st_mode):
        return beneath.st_nlink == 1 or marks == FUSE_OVERLAYFS
    return marks == OVERLAY


def _has_times(status: os.stat_result, beneath: os.stat_result) -> bool:
    """Return whether a file has a time of the file beneath: a copy is given both. Writing changes one, reading the
    other. The access time of a symbolic link says nothing: a daemon reads both links in one tick of the clock."""
    if status.st_mtime_ns == beneath.st_mtime_ns:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_atime_ns == beneath.st_atime_ns


def _can_mark(layers: Layers) -> bool:
    """Return whether the upper filesystem has such attributes: tmpfs has those of users since Linux 6.6."""
    try:
        os.getxattr(layers.upper, layers.marks + _ORIGIN)
    except OSError as error:
        return error.errno == errno.ENODATA
    return True


def _copied_at_most(new: _New, beneath: int, unshared: bool) -> int | None:
    """Return a bound of the bytes of data that copying wrote: what the copy shares with another file was not copied,
    nor its holes. What the workload wrote over it counts, and what it cut off. None if the filesystem lists neither."""
    size = min(beneath, new.status.st_size)
    with suppress(OSError):  # removed meanwhile
        data = min(size, new.status.st_blocks * 512) if unshared else own_data(new.path, size)
        return None if data is None else data + beneath - size
    return None


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
