"""The mount table of a process (/proc/PID/mountinfo, proc_pid_mountinfo(5)): what is really mounted."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import MachineError, RunError

#: Options of a mount that keep programs from running, or from running as they would elsewhere (mount(8)).
_RESTRICTIONS = {"noexec": os.ST_NOEXEC, "nosuid": os.ST_NOSUID, "nodev": os.ST_NODEV}
_ESCAPE = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One line of the table."""

    device: str  # MAJOR:MINOR
    path: Path
    type: str
    source: str
    mount_options: str  # of this mount
    shared: str = ""  # options of its filesystem: superblock options
    root: str = "/"  # the directory of the filesystem that is visible at path

    @property
    def options(self) -> str:
        return f"{self.mount_options},{self.shared}"


def read_mounts(process: int | str = "self") -> tuple[Mount, ...]:
    """Return all mounts that a process sees, in the order in which they were made. Raises OSError if it has ended."""
    return parse_mounts(Path(f"/proc/{process}/mountinfo").read_bytes())


def parse_mounts(table: bytes) -> tuple[Mount, ...]:
    """Decode a name: the kernel writes blank, tab, newline, backslash and ``#`` as three octal digits."""
    return tuple(_parse(line) for line in table.split(b"\n") if line)


def _parse(line: bytes) -> Mount:
    fields = [os.fsdecode(_ESCAPE.sub(lambda escape: bytes([int(escape[1], 8)]), part)) for part in line.split(b" ")]
    device, root, path, mount_options = fields[2:6]
    kind, source, shared = fields[fields.index("-", 6) + 1 :][:3]
    return Mount(device, Path(path), kind, source, mount_options, shared, root)


def mount_of(path: Path, process: int | str = "self") -> Mount:
    """Return the mount that contains a path, as a process sees it. Raises RunError if the mount table has none."""
    resolved = path.resolve()
    best: Mount | None = None
    for mount in read_mounts(process):
        if resolved.is_relative_to(mount.path) and (best is None or len(mount.path.parts) >= len(best.path.parts)):
            best = mount
    if best is None:
        raise RunError(f"{path} lies on no known mount", "check /proc/self/mountinfo")
    return best


def own_path(path: Path, process: int) -> Path:
    """Return the path at which this process sees a directory that another process sees at ``path``. Raises RunError if
    no mount of this process shows it."""
    outer = mount_of(path, process)
    inside = Path(outer.root) / path.relative_to(outer.path)
    for mount in read_mounts():
        if mount.device == outer.device and inside.is_relative_to(mount.root):
            visible = mount.path / inside.relative_to(mount.root)
            with suppress(OSError):  # hidden by another mount
                if visible.samefile(f"/proc/{process}/root{path}"):
                    return visible
    raise RunError(f"{path} of process {process} lies on no mount of this session", "use an engine without @VERSION")


def mounts_below(directory: Path) -> tuple[Mount, ...]:
    """Return the mounts at a directory or below, the latest first: they can be unmounted in that order."""
    resolved = directory.resolve()
    return tuple(mount for mount in reversed(read_mounts()) if mount.path.is_relative_to(resolved))


def restrictions(path: Path) -> tuple[str, ...]:
    """Return which of noexec, nosuid and nodev hold for files at a path. Raises OSError."""
    flags = os.statvfs(path).f_flag
    return tuple(name for name, flag in _RESTRICTIONS.items() if flags & flag)


def check_runs_programs(path: Path, what: str, fix: str) -> None:
    """Raises MachineError if no program in a directory can be run, or OSError. ``what``: the directory's name in the
    message."""
    if "noexec" in restrictions(path):
        raise MachineError(
            f"no program runs in {what}: {mount_of(path).path} is mounted noexec",
            fix,
        )
