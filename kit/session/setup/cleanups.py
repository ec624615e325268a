"""Clean-ups of everything that a session may leave behind when it dies."""

from __future__ import annotations

from kit.arms.engines.managed import STATE
from kit.arms.engines.system import CONTAINER, IMAGE, VOLUME
from kit.arms.filesystem.thin_pool import MAPPED_DEVICE
from kit.arms.filesystem.zfs import POOL
from kit.core.paths import Paths
from kit.host.recovery.cleanup import CGROUP, PATH, Cleanups, empty_directory
from kit.host.recovery.journal import Cleaned, clean
from kit.host.safe_fs import remove_abandoned

#: In the order of undoing: first running processes, then what they used.
CLEANUPS: Cleanups = {
    "cgroup": CGROUP,
    "container": CONTAINER,
    "volume": VOLUME,
    "image": IMAGE,
    "zpool": POOL,
    "mapped device": MAPPED_DEVICE,
    "directory": PATH,
    "empty directory": empty_directory(STATE),
    "file": PATH,
}


def clean_machine(paths: Paths) -> Cleaned:
    """Undo what dead sessions left on the machine, and remove their unfinished cache entries; the caller holds the
    machine lock. Raises the errors of ``clean``."""
    cleaned = clean(paths.journals, CLEANUPS)
    removed, remaining = [], []
    for directory in sorted(path for path in paths.cache.glob("*") if path.is_dir()):
        abandoned, others_entries = remove_abandoned(directory)
        removed += abandoned
        remaining += others_entries
    return Cleaned((*cleaned.undone, *removed), (*cleaned.left, *remaining))
