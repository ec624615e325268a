"""A private mount namespace: only the session sees its mounts, and the kernel frees them when the session dies."""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from kit.core.errors import MachineError
from kit.host.command import run
from kit.host.container import RIGHTS, granting
from kit.host.mounts import mount_of, read_mounts, restrictions
from kit.host.recovery.cleanup import remove_unused
from kit.host.recovery.journal import Journal

_CLONE_NEWNS = 0x00020000
_MS_RDONLY = 1
_MS_REMOUNT = 0x20
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_MS_SLAVE = 1 << 19
#: The source that the mount table shows for an empty tmpfs of the kit.
_COVER = "kit-cover"
#: Mode of a directory that a session has made to be covered.
_OURS = 0o1711


def enter_private_mounts() -> None:
    """Move this process into a new mount namespace of its own (mount_namespaces(7)).

    New mounts of the host still arrive (slave propagation); the session's mounts do not leave. Raises MachineError
    without permission."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) or libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None):
        reason = os.strerror(ctypes.get_errno())
        raise MachineError(f"no private mount namespace: {reason}", granting(RIGHTS, "run as root: sudo kit …"))


def bind_directory(descriptor: int, where: Path) -> None:
    """Mount an open directory at a second path, wherever its name now leads, without noexec, nosuid and nodev. Raises
    OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    target = os.fsencode(where)
    # A remount switches off what it does not name, except options of atime (mount(2)).
    read_only = _MS_RDONLY if os.fstatvfs(descriptor).f_flag & os.ST_RDONLY else 0
    for source, flags in (
        (f"/proc/self/fd/{descriptor}".encode(), _MS_BIND),
        (None, _MS_PRIVATE),
        (None, _MS_BIND | _MS_REMOUNT | read_only),
    ):
        if libc.mount(source, target, None, flags, None):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(where))


def allow_programs(directory: Path) -> bool:
    """Let programs run in a directory of the kit's, with their devices and users: mount it on itself if its mount is
    noexec, nosuid or nodev, as hardened machines mount /run, /tmp and /home. Only the private namespace sees that, and
    frees it. Return whether it was necessary. Raises MachineError."""
    options = restrictions(directory)
    if not options:
        return False
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        bind_directory(descriptor, directory)
    except OSError as error:
        raise MachineError(
            f"{directory} can't be mounted without {', '.join(options)}: {error.strerror}",
            granting(RIGHTS, f"mount {mount_of(directory).path} without {', '.join(options)}"),
        ) from None
    finally:
        os.close(descriptor)
    return True


@contextmanager
def covered(path: Path, journal: Journal) -> Iterator[None]:
    """Mount an empty tmpfs over a directory of the host, in the private namespace alone; make a missing directory. A
    covered directory is not covered again: one user's files must not hide behind another's. If the directory was
    mounted from a removed one, the kernel mounts nothing on it: then it is unmounted first."""
    while path.is_dir() and not path.stat().st_nlink:
        run(["umount", "--lazy", path])
    if any(mount.path == path.resolve() and mount.source == _COVER for mount in read_mounts()):
        yield
        return
    with ExitStack() as stack:
        if not path.is_dir() or path.stat().st_mode & stat.S_ISVTX:
            journal.acquire("empty directory", path)
            stack.callback(journal.release, "empty directory", path)
            stack.callback(remove_unused, str(path))
        stack.enter_context(_kept(path))
        run(["mount", "-t", "tmpfs", "-o", "mode=711", _COVER, path])
        try:
            yield
        finally:
            run(["umount", path])


@contextmanager
def _kept(path: Path) -> Iterator[None]:
    """Make a missing directory whose sticky bit marks it as a session's, and prevent other sessions from removing it:
    the last session removes it."""
    while True:
        with suppress(FileExistsError):
            path.mkdir(_OURS)  # marked from its first moment: another session may look at it before the next line
            path.chmod(_OURS)  # whatever the umask took
        with suppress(FileNotFoundError):
            opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(opened, fcntl.LOCK_SH)
            if os.fstat(opened).st_nlink:
                break
            os.close(opened)
    try:
        yield
    finally:
        os.close(opened)
