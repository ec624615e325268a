"""The journal of what a session acquires on the host. Each entry is written before the act, so that it can be undone
after any death (``clean``). Mounts of a private namespace and loop devices need no entry: the kernel frees them."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kit.core.errors import MORE_ROOM, KitError, MachineError, RunError
from kit.core.flock import try_lock
from kit.core.private import make_directory, make_private, user_name
from kit.host.recovery.cleanup import Cleanups
from kit.host.safe_fs import open_directory, open_real
from kit.model.session import is_session_id


@dataclass(frozen=True)
class Owner:
    pid: int
    start: int  # clock ticks since the machine started, field 22 of /proc/PID/stat
    boot: str  # the kernel's random name for the time since the machine started

    @classmethod
    def me(cls) -> Owner:
        return cls(os.getpid(), _start(os.getpid()), _boot())

    @classmethod
    def parse(cls, words: list[str]) -> Owner:
        """Return the process that a text names. Raises ValueError."""
        pid, start, boot = words
        return cls(int(pid), int(start), boot)

    @property
    def words(self) -> list[str]:
        return [str(self.pid), str(self.start), self.boot]

    def lives(self) -> bool:
        """Return whether exactly this process runs in this PID namespace; a zombie does not count."""
        return self.boot == _boot() and self.start == _start(self.pid)


def _start(pid: int) -> int:
    """Return the start time, -1 if the process does not exist."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return -1
    return -1 if state in (b"Z", b"X") else int(fields[18])


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


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


@dataclass(frozen=True)
class Cleaned:
    """The result: one sentence for each undone thing, and for each journal that was left alone."""

    undone: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class _RefusedError(Exception):
    """A journal that no session of this kit can have written."""


def clean(directory: Path, cleanups: Cleanups) -> Cleaned:
    """Undo the entries in the journals of dead sessions; the caller holds the machine lock. Journals of live sessions
    stay unchanged. An invalid journal is put aside and never obeyed. Raises KitError if a leftover would disturb a
    session, or if others could write to the directory."""
    if not directory.is_symlink() and not directory.exists():
        return Cleaned()
    make_private(directory)
    undone: list[str] = []
    leftovers: list[str] = []
    for path in sorted(directory.glob("*.jsonl")):
        try:
            with _read(path, cleanups) as (runs, entries):
                if runs:
                    leftovers.append(f"{path.stem} still runs ({runs}): nothing of it is removed")
                    continue
                failures: list[str] = []
                undone += _undo_all(path.stem, entries, cleanups, failures)
                leftovers += failures
                if not failures:
                    path.unlink()  # locked until then: a new journal of that name waits
        except _RefusedError as error:
            aside = _put_aside(path)
            leftovers.append(f"journal {path}: {error}; nothing of it was undone, see {aside.name}")
    return Cleaned(tuple(undone), tuple(leftovers))


def _put_aside(path: Path) -> Path:
    try:
        return path.rename(path.with_suffix(".refused"))
    except OSError as error:
        raise MachineError(f"{path} can't be put aside: {error.strerror}", f"remove {path} by hand") from None


def _undo_all(session: str, entries: list[tuple[str, str]], cleanups: Cleanups, failures: list[str]) -> list[str]:
    """Undo the entries. ``failures`` names those that fail and disturb no session; the next call tries them again."""
    removed = []
    for name, kind in cleanups.items():
        for value in [value for entry, value in reversed(entries) if entry == name]:
            if kind.gone(value):
                continue
            try:
                kind.undo_one(name, value)
            except KitError as error:
                text = f"session {session} left a {name} {value}: {error.message}"
                if not kind.at_rest:
                    raise type(error)(text, error.hint) from None
                failures.append(f"{text}; fix: {error.hint}")
                continue
            removed.append(f"{session}: removed {name} {value}")
    return removed


@contextmanager
def _read(path: Path, cleanups: Cleanups) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield '' or the process that still runs, and the entries. A dead session's journal is locked for the length of
    the block. Raises _RefusedError."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        reason = "it is a link" if path.is_symlink() else os.strerror(error.errno or 0)
        raise _RefusedError(reason) from None
    with os.fdopen(descriptor, "rb") as file:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
            raise _RefusedError("it is not a regular file")
        if info.st_uid != os.geteuid():
            raise _RefusedError(f"it belongs to {user_name(info.st_uid)}")
        if info.st_mode & 0o022:
            raise _RefusedError("others may write to it")
        try:
            owner, entries = parse(file.read(), path, cleanups)
        except ValueError as error:
            raise _RefusedError(str(error)) from None
        # A number identifies a process in its own PID namespace alone; the lock works everywhere.
        if not try_lock(descriptor) or (owner and owner != Owner.me() and owner.lives()):
            yield f"process {owner.pid}" if owner else "a process", entries
            return
        yield "", entries
