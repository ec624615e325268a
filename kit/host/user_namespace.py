"""Whether programs may make user namespaces (user_namespaces(7)), and map users and groups into them, which rootless
engines need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kit.core.errors import MachineError
from kit.core.private import user_name
from kit.host.command import require, which

_MOST = Path("/proc/sys/user/max_user_namespaces")
#: Debian's.
_CLONE = Path("/proc/sys/kernel/unprivileged_userns_clone")
#: Ubuntu's, since 23.10: only programs with a profile that has the rule ``userns`` have rights in their namespaces.
_RESTRICTED = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_PROFILES = Path("/etc/apparmor.d")
#: Ranges of numbers that users may map, and usermod's option for each (subuid(5), subgid(5)).
_RANGES = {Path("/etc/subuid"): "--add-subuids", Path("/etc/subgid"): "--add-subgids"}
#: The first number of such a range, and how many a range has, as useradd makes it (login.defs(5), SUB_UID_MIN).
_FIRST, _COUNT = 100_000, 65_536


def why_no_user_namespace(program: str, root: bool = False) -> tuple[str, str]:
    """Return why a program can make no user namespace here, and the fix; two empty texts if no setting forbids it.
    ``root``: it is root's, and no ordinary user's."""
    if _read(_MOST) in ("", "0"):
        fix = "run sudo sysctl user.max_user_namespaces=15000, or boot a kernel with CONFIG_USER_NS"
        return "nobody may make a user namespace (user.max_user_namespaces)", fix
    if root:
        return "", ""
    if _read(_CLONE) == "0":
        fix = "run sudo sysctl kernel.unprivileged_userns_clone=1"
        return "only root may make a user namespace (kernel.unprivileged_userns_clone)", fix
    path = which(program)
    if _read(_RESTRICTED) == "1" and path and not _has_profile(path):
        fix = "run sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or write a profile with the rule userns"
        return f"AppArmor lets no program without a profile use a user namespace, and {path} has none", fix
    return "", ""


def why_no_mapped_users(program: str) -> tuple[str, str]:
    """Return why an ordinary user's program can map no users and groups into a namespace, and the fix; two empty texts
    if it can."""
    reason, fix = why_no_user_namespace(program)
    if reason:
        return reason, fix
    try:
        require("newuidmap")
    except MachineError as error:
        return error.message, error.hint
    user = user_name(os.getuid())  # a container's may have no name
    names = (user, str(os.getuid()))
    lacking = [file for file in _RANGES if all(owner not in names for owner, _ in _ranges(file))]
    if not lacking:
        return "", ""
    first = max([_FIRST, *(end for file in _RANGES for _, end in _ranges(file))])
    options = " ".join(f"{_RANGES[file]} {first}-{first + _COUNT - 1}" for file in lacking)
    files = " and ".join(map(str, lacking))
    return f"{user} has no range of numbers in {files}", f"run sudo usermod {options} {user}"


def _ranges(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the owner of each range, and the number behind its last one."""
    for line in _read(file).splitlines():
        owner, *numbers = line.split(":")
        with suppress(ValueError):
            first, count = map(int, numbers)
            yield owner, first + count


def _has_profile(path: str) -> bool:
    return any(path in _read(profile) for profile in _PROFILES.glob("*"))


def _read(path: Path) -> str:
    with suppress(OSError, UnicodeError):
        return path.read_text().strip()
    return ""
