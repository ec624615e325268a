"""Compares the options of a mount with the requested ones: the kernel can reject, ignore, or hide options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kit.core.errors import MachineError
from kit.host.mounts import Mount

_SAME = {"barrier=0": "nobarrier", "barrier=1": "barrier"}
#: Options that the kernel shows in other units than given, or not at all.
_NOT_COMPARED = ("size", "nr_inodes", "nr_blocks", "defaults", "rw", "loop")
_OVERLAY = Path("/sys/module/overlay/parameters")

#: Options whose opposite is always shown if it is in force.
_OFF_UNLESS_SHOWN = ("nodiscard",)


def unconfirmed(name: str, requested: Sequence[str], mount: Mount) -> tuple[str, ...]:
    """Return the options that the kernel does not show, whose effect is unknown. Raises MachineError for one that is
    not in force: the kernel shows its opposite, or ext2, ext3 or ext4, which list every option, do not show it."""
    active = _shown(mount)
    missing = _missing(requested, active)
    for option in missing:
        other = _opposite(option, active)
        if other or _all_options(mount):
            instead = f"it shows {other}" if other else "it does not show it"
            raise MachineError(
                f"{name}: this kernel ignores the mount option {option}: {instead}",
                "use a kernel that has it, or a profile without it",
            )
    return tuple(option for option in missing if option not in _OFF_UNLESS_SHOWN)


def not_in_force(requested: Sequence[str], mount: Mount, parameters: Path = _OVERLAY) -> tuple[str, ...]:
    """Return those of the wanted options that an overlay mount does not have. ``parameters``: the module's directory.

    The kernel shows an option only where it differs from the module's parameter, and ``xino`` only of layers on several
    filesystems (fs/overlayfs/params.c); on one filesystem it changes nothing."""
    active = dict(option.split("=", 1) for option in mount.options.split(",") if "=" in option)
    return tuple(word for word in requested if not _has(word, active, mount, parameters))


def _has(word: str, active: dict[str, str], mount: Mount, parameters: Path) -> bool:
    name, _, value = word.partition("=")
    if not value:
        return word in mount.options.split(",") or active.get("fsync") == word
    if name in active:
        return active[name] == value
    parameter = parameters / name
    if name == "xino" or not parameter.exists():
        return name == "xino" or value == "off"
    default = "on" if parameter.read_text().strip() == "Y" else "off"
    if name == "redirect_dir" and default == "off" and value != "on":
        follows = (parameters / "redirect_always_follow").read_text().strip() == "Y"
        return value == "off" or value == ("follow" if follows else "nofollow")
    return value == default


def _shown(mount: Mount) -> set[str]:
    active = set(mount.options.split(","))
    every = _all_options(mount)
    return active | set(every.read_text().split()) if every else active


def _all_options(mount: Mount) -> Path | None:
    """Return the file in which ext2, ext3 and ext4 list their options."""
    path = Path(f"/proc/fs/ext4/{Path(mount.source).name}/options")
    return path if mount.type.startswith("ext") and path.exists() else None


def _missing(requested: Sequence[str], active: set[str]) -> list[str]:
    return [option for option in requested if option.partition("=")[0] not in _NOT_COMPARED and not _in(option, active)]


def _in(option: str, active: set[str]) -> bool:
    """Return whether an option is shown; ``compress=zstd`` is shown as ``compress=zstd:3``."""
    names = {option, _SAME.get(option, option)}
    return bool(names & active) or any(other.startswith(f"{option}:") for other in active if "=" in option)


def _opposite(option: str, active: set[str]) -> str:
    """Return the opposite that is shown instead, or ''."""
    option = _SAME.get(option, option)
    key, equals, _ = option.partition("=")
    if equals:
        candidates = [other for other in active if other.partition("=")[0] == key]
    else:
        reverse = key.removeprefix("no") if key.startswith("no") else f"no{key}"
        candidates = [other for other in active if other.partition("=")[0] == reverse]
    return next(iter(sorted(candidates)), "")
