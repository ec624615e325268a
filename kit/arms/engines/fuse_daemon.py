"""The daemon that serves a container's root filesystem through FUSE, in a control group of its own.

An engine starts one daemon for each mount, all in the engine's group. There none can be frozen with its arm."""

from __future__ import annotations

from pathlib import Path

from kit.core.errors import RunError
from kit.host.cgroup.cgroup import Cgroup
from kit.host.mounts import mount_of, read_mounts


def move_daemon(container: int, engine: Cgroup, group: Cgroup, data: Path) -> Cgroup | None:
    """Return the group with the daemon in it, None if the engine has mounted no FUSE filesystem as the container's
    root.

    ``container``: a process in it; ``engine``: the control group of the engine's processes; ``data``: the engine's
    directory, which may lie on a FUSE filesystem itself. Raises RunError if none of these processes serves the root."""
    root = mount_of(Path("/"), container)
    if root.type.partition(".")[0] not in ("fuse", "fuseblk") or root.device == mount_of(data).device:
        return None
    servers = [process for process in engine.pids() if _serves(process, root.device)]
    if not servers:
        raise RunError(f"no process of the engine serves the container's {root.type}", "use a layer arm without FUSE")
    moved = group.create()
    for process in servers:
        moved.adopt(process)
    return moved


def _serves(process: int, device: str) -> bool:
    """Return whether one of the process's arguments is the filesystem's mount point as the process sees it. A FUSE
    program gets its mount point as a full path, or relative to a directory of the engine's."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
        mounts = read_mounts(process)
    except OSError:
        return False  # the process has ended
    points = [str(mount.path) for mount in mounts if mount.device == device]
    return any(point.endswith(f"/{word.lstrip('/')}") for word in words if word for point in points)
