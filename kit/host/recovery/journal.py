"""The journal of what a session acquires on the host. Each entry is written before the act, so that it can be undone
after any death (``recovery``). Mounts of a private namespace and loop devices need no entry: the kernel frees them."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from kit.core.errors import MORE_ROOM, MachineError, RunError
from kit.core.private import make_directory, make_private
from kit.host.recovery.cleanup import Cleanups
from kit.host.recovery.process_id import Owner
from kit.host.safe_fs import open_directory, open_real
from kit.model.session import is_session_id


def _create(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise RunError(f"{path} exists: the session {path.stem} still runs", "wait for its end") from None
    except OSError as error:
        raise MachineError(f"{path} can't be made: {error.strerror}", MORE_ROOM) from None


def _make_directory(mode: int, above: int, name: str) -> int:
    os.mkdir(name, 0o700, dir_fd=above)
    descriptor = open_directory(name, above)
    if os.fstat(descriptor).st_uid != os.geteuid() or os.listdir(descriptor):
        os.close(descriptor)
        raise OSError(errno.ESTALE, "somebody has put another in its place")
    os.fchmod(descriptor, mode)  # past the umask
    return descriptor


def _make_file(above: int, name: str) -> int:
    return os.open(name, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=above)


def _identity_of(make: Callable[[int, str], int], path: Path) -> tuple[int, int]:
    """Make the thing, and return what distinguishes it from others."""
    above = open_real(path.parent)
    try:
        descriptor = make(above, path.name)
    finally:
        os.close(above)
    try:
        info = os.fstat(descriptor)
        return info.st_dev, info.st_ino
    finally:
        os.close(descriptor)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the thing's identity; None if the name is unused."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        return None
    return info.st_dev, info.st_ino


class Journal:
    """An append-only file of one session: its owner, then one line for each thing acquired or released. Each line is
    durable before the act. The file is locked (flock(2)) while the session lives."""

    def __init__(self, path: Path, cleanups: Cleanups) -> None:
        """``cleanups``: those of everything that the session may acquire. Raises MachineError if somebody else could
        write to the file, RunError if the session already has a journal."""
        self.path = path
        self._cleanups = cleanups
        make_private(path.parent)
        self._file = _create(path)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        while not os.fstat(self._file).st_nlink:  # removed as a dead session's before it was locked
            os.close(self._file)
            self._file = _create(path)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._write(["owner", *Owner.me().words])
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)  # the file's name, too
        finally:
            os.close(directory)

    def acquire(self, kind: str, value: str | Path) -> None:
        check_entry(kind, str(value), self.path, self._cleanups)
        self._write(["+", kind, str(value)])

    def release(self, kind: str, value: str | Path) -> None:
        self._write(["-", kind, str(value)])

    @contextmanager
    def holding(self, kind: str, value: str | Path) -> Iterator[None]:
        """Hold a thing for the length of the block and undo it at the end, whatever happens. Raises RunError if the
        name is already used."""
        self._refuse_taken(kind, str(value))
        self.acquire(kind, value)
        try:
            yield
        finally:
            self._cleanups[kind].undo_one(kind, str(value))
            self.release(kind, value)

    @contextmanager
    def directory(self, path: Path, mode: int = 0o700) -> Iterator[Path]:
        """Yield a new directory; remove it with all its content at the end of the block. Raises RunError if the name is
        already used, and at the end if somebody has replaced the directory."""
        with self._making("directory", path, partial(_make_directory, mode)):
            yield path

    @contextmanager
    def file(self, path: Path) -> Iterator[Path]:
        """Yield a new, empty file for the length of the block. Raises RunError as ``directory`` does."""
        with self._making("file", path, _make_file):
            yield path

    @contextmanager
    def _making(self, kind: str, path: Path, make: Callable[[int, str], int]) -> Iterator[None]:
        """Make a thing and hold it. ``make`` gets a descriptor of the parent directory and the name, and returns the
        thing's identity."""
        try:
            make_directory(path.parent)
            real = path.parent.resolve() / path.name  # after a crash the path must not lead through a link
            self._refuse_taken(kind, str(real))
            self.acquire(kind, real)
            try:
                identity = _identity_of(make, real)
            except OSError:
                self.release(kind, real)
                raise
        except OSError as error:
            raise RunError(
                f"the {kind} {path} can't be made: {error.strerror}", "check that the kit may write there"
            ) from None
        try:
            yield
        finally:
            if identity != _identity(real) is not None:
                self.release(kind, real)
                raise RunError(
                    f"the {kind} {real} was replaced meanwhile; it is not removed", f"check it with ls -ld {real}"
                )
            self._cleanups[kind].undo_one(kind, str(real))
            self.release(kind, real)

    def _refuse_taken(self, kind: str, value: str) -> None:
        """Raises RunError: a session must not undo what it did not make."""
        if self._cleanups[kind].taken(value):
            raise RunError(f"{kind} {value} exists already and is not of this session", "remove or rename it")

    def close(self) -> None:
        """End a session that has released everything: remove the journal, as nothing is left to undo."""
        if not parse(self.path.read_bytes(), self.path, self._cleanups)[1]:
            self.path.unlink()
        os.close(self._file)

    def _write(self, line: list[str]) -> None:
        try:
            os.write(self._file, json.dumps(line).encode() + b"\n")
            os.fsync(self._file)
        except OSError as error:
            raise RunError(f"{self.path} can't be written: {error.strerror}", MORE_ROOM) from None


def parse(content: bytes, path: Path, cleanups: Cleanups) -> tuple[Owner | None, list[tuple[str, str]]]:
    """Return the journal's owner, and the entries acquired and not released. A last line cut short by a crash is
    ignored: its act had not begun. Raises ValueError with the line for anything that the kit does not write."""
    owner: Owner | None = None
    entries: list[tuple[str, str]] = []
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            words = json.loads(line)
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise ValueError("no list of words")
            if number == 1:
                if words[:1] != ["owner"]:
                    raise ValueError("it names no owner")
                owner = Owner.parse(words[1:])
                continue
            sign, kind, value = words
            check_entry(kind, value, path, cleanups)
            if sign == "+":
                entries.append((kind, value))
            elif sign == "-" and (kind, value) in entries:
                entries.remove((kind, value))
            else:
                raise ValueError(f"the sign {sign!r}")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number}: {str(error)[:200]}") from None
    return owner, entries


def check_entry(kind: str, value: str, journal: Path, cleanups: Cleanups) -> None:
    """Raises ValueError for anything that no session acquires: each thing bears the session's name, or lies beside the
    journals."""
    if not is_session_id(journal.stem):
        raise ValueError(f"{journal.stem!r} is not a session")
    if kind not in cleanups or not cleanups[kind].ours(value, journal) or "\0" in value:
        raise ValueError(f"no {kind[:40]} of this session's: {value[:100]!r}")
