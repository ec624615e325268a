"""Namespaces of the session's own: its mounts and its network, which the kernel frees when the session dies."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread

from kit.core.errors import MachineError
from kit.host.command import run
from kit.host.container import RIGHTS, granting
from kit.host.mounts import mount_of, read_mounts, restrictions
from kit.host.recovery.cleanup import remove_unused
from kit.host.recovery.journal import Journal

_CLONE_NEWNS = 0x00020000
_CLONE_NEWNET = 0x40000000
_MS_RDONLY = 1
_MS_REMOUNT = 0x20
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_MS_SLAVE = 1 << 19
#: netdevice(7): the request that sets an interface's flags, and the one that switches it on.
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_MS_NOSUID, _MS_NODEV = 0x2, 0x4
#: Shared memory of programs (shm_overview(7)), in which all Podman services of a machine keep their locks.
_SHARED_MEMORY = Path("/dev/shm")
#: The source that the mount table shows for an empty tmpfs of the kit.
_COVER = "kit-cover"
#: Mode of a directory that a session has made to be covered.
_OURS = 0o1711


def enter_private_mounts() -> None:
    """Move this process into a new mount namespace of its own (mount_namespaces(7)).

    New mounts of the host still arrive (slave propagation); the session's mounts do not leave. Shared memory is its
    own. Raises MachineError without permission."""
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.unshare(_CLONE_NEWNS)
        or libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None)
        or (
            _SHARED_MEMORY.is_dir()
            and libc.mount(_COVER.encode(), bytes(_SHARED_MEMORY), b"tmpfs", _MS_NOSUID | _MS_NODEV, b"mode=1777")
        )
    ):
        reason = os.strerror(ctypes.get_errno())
        raise MachineError(f"no private mount namespace: {reason}", granting(RIGHTS, "run as root: sudo kit …"))


@contextmanager
def own_network(path: Path) -> Iterator[None]:
    """Make a network namespace with a loopback interface alone, as a container without a network has, and mount it on
    the new file ``path`` (network_namespaces(7)). A daemon in it changes no link, rule or setting of the machine's
    network. Raises MachineError."""
    failures: list[OSError] = []
    path.touch(0o600)
    # Only the thread that calls unshare(2) moves: the session itself keeps the machine's network.
    maker = Thread(target=_make_network, args=(path, failures))
    maker.start()
    maker.join()
    try:
        if failures:
            raise MachineError(
                f"no network of the session's own: {os.strerror(failures[0].errno or 0)}",
                granting(RIGHTS, "use a kernel with network namespaces (CONFIG_NET_NS)"),
            )
        try:
            yield
        finally:
            run(["umount", path])
    finally:
        path.unlink()


def _make_network(path: Path, failures: list[OSError]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            fcntl.ioctl(sender, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
        if libc.mount(b"/proc/thread-self/ns/net", os.fsencode(path), None, _MS_BIND, None):
            raise OSError(ctypes.get_errno(), "mount")
    except OSError as error:
        failures.append(error)


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
