"""Files that are complete or missing, whatever ends the kit or the machine: written beside, synced, then renamed."""

from __future__ import annotations

import ctypes
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from kit.core.codec import UnreadableError, decode_json, encode_json
from kit.core.errors import RunError
from kit.core.trusted import open_believed

T = TypeVar("T")


def write_file(path: Path, data: bytes) -> None:
    """Write a file that has its old content, or all of the new content. Raises OSError."""
    with replacing(path, 0o644) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _sync_names(path.parent)


@contextmanager
def replacing(path: Path, mode: int, beside: int | None = None) -> Iterator[IO[bytes]]:
    """Yield a new file beside ``path`` that takes its name at the end of the block, with that mode. ``beside``: a
    descriptor of its directory, instead of the path's. Raises OSError."""
    new = f".new-{secrets.token_hex(8)}"
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    directory = os.open(path.parent if beside is None else ".", flags, dir_fd=beside)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(new, flags, 0o600, dir_fd=directory), "wb") as file:
            os.fchmod(file.fileno(), mode)
            yield file
        os.replace(new, path.name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(new, dir_fd=directory)
        raise
    finally:
        os.close(directory)


def publish(new: Path, target: Path) -> None:
    """Rename a file or directory after its content has reached the disk. Raises OSError, RunError."""
    sync_filesystem(new.parent)
    _rename(new, target)


def write_record(path: Path, value: Any) -> None:
    """Write a dataclass as JSON, as ``write_file`` does. Raises OSError."""
    write_file(path, encode_json(value).encode())


def read_record(kind: type[T], path: Path) -> T | None:
    """Return what ``write_record`` has written. None if the record is missing or unreadable: its object is then
    rebuilt. Raises UsageError if others may have changed it, since programs are run by what it says."""
    try:
        with open_believed(path) as file:
            return decode_json(kind, file.read())
    except (OSError, UnreadableError):
        return None


def sync_filesystem(path: Path) -> None:
    """Write back all dirty data of the filesystem that contains a directory (syncfs(2)). Raises RunError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(descriptor):
            code = ctypes.get_errno()
            raise RunError(f"sync of {path} failed: {os.strerror(code)}", "see dmesg: the disk may be full")
    finally:
        os.close(descriptor)


def _rename(new: Path, target: Path) -> None:
    new.replace(target)
    _sync_names(target.parent)


def _sync_names(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
