"""ZFS (zpool(8), zfsprops(7)): a pool of its own on a sparse loop image, or on the user's device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kit.arms.filesystem.backing import Backing, BackingOptions
from kit.arms.filesystem.block import loop_backing
from kit.arms.filesystem.device import clear_device, device_number
from kit.arms.filesystem.profile import Profile
from kit.core.errors import MachineError, RunError
from kit.host.command import require, run
from kit.host.kernel_part import ZFS, require_part
from kit.host.mounts import mount_of
from kit.host.recovery.cleanup import Cleanup
from kit.host.recovery.journal import Journal


@contextmanager
def zfs_backing(
    profile: Profile, options: BackingOptions, where: Path, label: str, journal: Journal
) -> Iterator[Backing]:
    """mkfs options are words of ``zpool create``, mount options are properties (``atime=off``). Raises MachineError,
    RunError."""
    require_part(ZFS, "install zfs-dkms, which Debian has in contrib, or use a guest: kit kernel --help")
    require("zpool")
    with ExitStack() as stack:
        if options.device is not None:
            clear_device(options.device, options.wipe)
            device, kind = options.device, "device"
        else:
            device, kind = stack.enter_context(loop_backing(options, journal, f"{label}-{profile.name}"))
        pool = f"kit-{label}-{profile.name}"
        where.mkdir(parents=True, exist_ok=True)
        stack.enter_context(journal.holding("zpool", pool))
        # No cache file: the pool must not be imported when the machine starts.
        words: list[str | Path] = ["zpool", "create", "-f", "-o", "cachefile=none", "-m", where]
        properties = [word for option in options.mount_options(profile) for word in ("-O", option)]
        run([*words, *properties, *options.mkfs_words(profile), pool, device], what="zpool create")
        mount = mount_of(where)
        yield Backing(profile.name, where, kind, mount.type, mount.options, device_number(device))


def _destroy_pool(name: str) -> None:
    """Destroy a pool of the kit's, if it exists."""
    if _is_pool(name):
        run(["zpool", "destroy", "-f", name], what=f"zpool destroy {name}")


def _is_pool(name: str) -> bool:
    try:
        run(["zpool", "list", "-H", name])
    except (RunError, MachineError):
        return False
    return True


POOL = Cleanup(_destroy_pool, _is_pool)
