"""Private directories and files of the kit, which no other user writes to or looks into."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kit.core.errors import MachineError

#: The umask with which the user started this process, once it has another.
_USERS: list[int] = []


def take_umask() -> None:
    """Give this process, and all it starts, the umask by which others only read what it makes: programs that they could
    write to would be run by root. Files that the user asks for still follow the user's own, ``users_umask``."""
    before = os.umask(0o022)
    if not _USERS:
        _USERS.append(before)


def users_umask() -> int:
    if _USERS:
        return _USERS[0]
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")  # umask(2) would also set it
    return next(int(line.split()[1], 8) for line in status.splitlines() if line.startswith("Umask:"))


@contextmanager
def plain_umask() -> Iterator[None]:
    """Let the owner alone write to what the block creates, and all read it, whatever the user's umask is: users of
    containers do. Directories that others must not enter have modes of their own."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def make_directory(directory: Path, mode: int = 0o755) -> bool:
    """Make a directory of this mode and its missing parents of mode 755, whatever the umask is. Return False if it
    exists, and change nothing then. Raises OSError."""
    if not directory.parent.exists():
        make_directory(directory.parent)
    try:
        directory.mkdir(mode)
    except FileExistsError:
        if directory.is_symlink() or not directory.is_dir():
            raise
        return False
    directory.chmod(mode)
    return True


def make_private(directory: Path, mode: int = 0o700) -> None:
    """Make a directory that only this user can write to. An existing directory must be private already, and keeps its
    mode: it may belong to other programs. Raises MachineError for a link, another owner, or if others may write."""
    try:
        with suppress(FileExistsError):
            make_directory(directory, mode)
    except OSError as error:
        raise unusable(directory, os.strerror(error.errno or 0)) from None
    os.close(open_own(directory))


def passable_mode() -> int:
    """Return the mode of root's directories on the way to an arm's tree: an ordinary user may pass, but list
    nothing."""
    return 0o711 if os.geteuid() == 0 else 0o700


def writable_by_others(path: Path | str, info: os.stat_result) -> int:
    """Return the bits of a file's mode that let another user write to it. A user's private group is no other user.
    ``path``: leads to the file."""
    only_owner = info.st_mode & 0o020 and _is_private_group(info) and not _has_acl(path)
    return info.st_mode & (0o002 if only_owner else 0o022)


def close_command(path: Path | str, info: os.stat_result) -> str:
    """Return the command by which this user closes a file to the others who may write to it."""
    bits = writable_by_others(path, info)
    letters = "".join(letter for bit, letter in ((0o020, "g"), (0o002, "o")) if bits & bit)
    sudo = "" if os.geteuid() in (0, info.st_uid) else "sudo "
    return f"{sudo}chmod {letters}-w {shlex.quote(str(path))}"


def _has_acl(path: Path | str) -> bool:
    """Return whether a file's mode shows for its group what further users and groups may do (acl(5))."""
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


def _is_private_group(info: os.stat_result) -> bool:
    """Return whether the owner is the only member of a file's group: login.defs(5), USERGROUPS_ENAB, which Debian and
    Fedora set, with umask 002. A group of another name may have members that no list of this machine shows."""
    try:
        owner, group = pwd.getpwuid(info.st_uid), grp.getgrgid(info.st_gid)
    except KeyError:
        return False
    alike = group.gr_name == owner.pw_name and owner.pw_gid == info.st_gid
    return (
        alike
        and {*group.gr_mem} <= {owner.pw_name}
        and all(user.pw_uid == info.st_uid for user in pwd.getpwall() if user.pw_gid == info.st_gid)
    )


def open_own(directory: Path) -> int:
    """Return a descriptor of a directory of this user's, to which nobody else may write. Raises MachineError."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        what = "it is a link" if directory.is_symlink() else os.strerror(error.errno or 0)
        raise unusable(directory, what) from None
    info = os.fstat(descriptor)
    reason, fix = "", ""
    if info.st_uid != os.geteuid():
        reason = f"it belongs to {user_name(info.st_uid)}, not to {user_name(os.geteuid())}"
    elif writable_by_others(f"/proc/self/fd/{descriptor}", info):
        reason, fix = "others may write to it", close_command(directory, info)
    if reason:
        os.close(descriptor)
        raise unusable(directory, reason, fix)
    return descriptor


def unusable(directory: Path, reason: str, fix: str = "") -> MachineError:
    """Return the error for a directory of the kit's. ``fix``: a command after which the directory can be used; its
    content may be another user's."""
    remove = f"run {fix}" if fix else "remove it"
    hint = f"check its contents and {remove}, or name your own directories with KIT_HOME and XDG_RUNTIME_DIR"
    return MachineError(f"the kit can't use {directory}: {reason}", hint)


def user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
