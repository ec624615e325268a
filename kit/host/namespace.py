"""A private mount namespace: what a session mounts is seen by itself alone and freed by the kernel when it dies."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kit.core.errors import MachineError
from kit.host.command import run
from kit.host.journal import Journal
from kit.host.mounts import read_mounts

_CLONE_NEWNS = 0x00020000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_MS_SLAVE = 1 << 19
#: What the mount table calls the source of an empty tmpfs of ours.
_COVER = "kit-cover"


def enter_private_mounts() -> None:
    """Move this process into a new mount namespace of its own (mount_namespaces(7)).

    Mounts of the host still arrive (slave propagation), ours do not leave. Raises MachineError where not permitted.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) or libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None):
        reason = os.strerror(ctypes.get_errno())
        raise MachineError(f"no private mount namespace: {reason}", "run as root: sudo kit …")


def bind_directory(descriptor: int, where: Path) -> None:
    """Mount an open directory at another place too, whatever its name leads to by now. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    target = os.fsencode(where)
    if libc.mount(f"/proc/self/fd/{descriptor}".encode(), target, None, _MS_BIND, None) or libc.mount(
        None, target, None, _MS_PRIVATE, None
    ):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(where))


@contextmanager
def covered(path: Path, journal: Journal) -> Iterator[None]:
    """Lay an empty tmpfs over a directory of the host, in the private namespace alone; make it if it is not there. Over
    one that is covered already nothing is laid: what two users have in it must not hide behind the other's."""
    if any(mount.path == path.resolve() and mount.source == _COVER for mount in read_mounts()):
        yield
        return
    with ExitStack() as stack:
        if not path.is_dir():
            stack.enter_context(journal.holding("empty directory", path))
            path.mkdir()
        run(["mount", "-t", "tmpfs", "-o", "mode=711", _COVER, path])
        try:
            yield
        finally:
            run(["umount", path])
