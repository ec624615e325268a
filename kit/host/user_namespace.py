"""Whether programs may make user namespaces (user_namespaces(7)), which rootless engines need."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kit.host.command import which

_MOST = Path("/proc/sys/user/max_user_namespaces")
#: Debian's.
_CLONE = Path("/proc/sys/kernel/unprivileged_userns_clone")
#: Ubuntu's, since 23.10: only programs with a profile that has the rule ``userns`` have rights in their namespaces.
_RESTRICTED = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_PROFILES = Path("/etc/apparmor.d")


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


def _has_profile(path: str) -> bool:
    return any(path in _read(profile) for profile in _PROFILES.glob("*"))


def _read(path: Path) -> str:
    with suppress(OSError, UnicodeError):
        return path.read_text().strip()
    return ""
