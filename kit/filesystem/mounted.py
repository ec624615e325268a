"""What a kernel really mounted, against what was asked for: options can be rejected, ignored, or just not shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kit.core.errors import MachineError
from kit.host.mounts import Mount

_SAME = {"barrier=0": "nobarrier", "barrier=1": "barrier"}
#: Shown in other units than given, or not by the kernel at all.
_NOT_COMPARED = ("size", "nr_inodes", "nr_blocks", "defaults", "rw", "loop")


#: Whose opposite is always shown where it is in force.
_OFF_UNLESS_SHOWN = ("nodiscard",)


def unconfirmed(name: str, wanted: Sequence[str], mount: Mount) -> tuple[str, ...]:
    """Options that the kernel does not show, so that nothing says whether they are in force.

    ext2, ext3 and ext4 list every option (/proc/fs/ext4/DEVICE/options): there, what is missing is not in force.
    Raises MachineError for an option that is not.
    """
    shown = set(mount.options.split(","))
    complete = Path(f"/proc/fs/ext4/{Path(mount.source).name}/options")
    if mount.type.startswith("ext") and complete.exists():
        shown |= set(complete.read_text().split())
        everything = True
    else:
        everything = False
    silent = []
    for option in wanted:
        if option.partition("=")[0] in _NOT_COMPARED or _in(option, shown):
            continue
        other = _opposite(option, shown)
        if other or everything:
            instead = f"it shows {other}" if other else "it does not show it"
            raise MachineError(
                f"{name}: this kernel ignores the mount option {option}: {instead}",
                "use a kernel that has it, or a profile without it",
            )
        if option not in _OFF_UNLESS_SHOWN:
            silent.append(option)
    return tuple(silent)


def _in(option: str, shown: set[str]) -> bool:
    """``compress=zstd`` is shown as ``compress=zstd:3``."""
    names = {option, _SAME.get(option, option)}
    return bool(names & shown) or any(item.startswith(f"{option}:") for item in shown if "=" in option)


def _opposite(option: str, shown: set[str]) -> str:
    """What is shown in its stead, or ''."""
    option = _SAME.get(option, option)
    key, equals, _ = option.partition("=")
    if equals:
        candidates = [item for item in shown if item.partition("=")[0] == key]
    else:
        reverse = key.removeprefix("no") if key.startswith("no") else f"no{key}"
        candidates = [item for item in shown if item.partition("=")[0] == reverse]
    return next(iter(sorted(candidates)), "")
