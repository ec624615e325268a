"""All that a session may leave behind when it dies."""

from __future__ import annotations

from kit.engines.containerd_program import SHIMS
from kit.engines.system import CONTAINER, IMAGE, VOLUME
from kit.filesystem.thin_pool import MAPPED_DEVICE
from kit.filesystem.zfs import POOL
from kit.host.cleanup import CGROUP, PATH, Cleanups, empty_directory

#: In the order in which they are undone: first what runs, then what it used.
CLEANUPS: Cleanups = {
    "cgroup": CGROUP,
    "container": CONTAINER,
    "volume": VOLUME,
    "image": IMAGE,
    "zpool": POOL,
    "mapped device": MAPPED_DEVICE,
    "directory": PATH,
    "empty directory": empty_directory(SHIMS),
    "file": PATH,
}
