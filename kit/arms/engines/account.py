"""The user of a session's own, whose numbers no other user of the machine has: as it a rootless engine runs, and its
subordinate numbers are those of users in containers. Only the session's private mount namespace knows its name."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from threading import Lock

from kit.core.errors import SESSION_LOG, MachineError, RunError
from kit.host.command import run
from kit.host.mounts import mount_of
from kit.host.namespace import covered
from kit.host.recovery.journal import Journal

#: Numbers of one container: those of an ordinary range.
RANGE = 1 << 16
#: Subordinate numbers: enough for a thousand containers at once.
_SUBORDINATE = 1024 * RANGE
#: Above what useradd(8), FreeIPA and SSSD give out, below what systemd reserves (systemd, UIDS-GIDS).
_LOWEST, _HIGHEST = 2_000_486_400, 2_147_352_576
#: Files with users, groups, and their subordinate numbers (passwd(5), group(5), subuid(5), subgid(5)).
FILES = tuple(Path("/etc") / name for name in ("passwd", "group", "subuid", "subgid"))
#: The socket of nscd(8), which answers for all programs what the machine's files say.
_NAME_CACHE = Path("/run/nscd")
_MOUNTING = Lock()


@dataclass(frozen=True)
class Account:
    """``number``: of the user, and of its only group."""

    number: int

    @property
    def name(self) -> str:
        return f"kit-{self.number}"

    @property
    def numbers(self) -> range:
        """Return its own number and the subordinate ones, which begin with the next whole range."""
        return range(self.number, self.number + RANGE + _SUBORDINATE)

    def words(self) -> list[str]:
        """Return the words before a command that this user runs."""
        return ["setpriv", f"--reuid={self.number}", f"--regid={self.number}", "--clear-groups", "--"]

    def make_directory(self, path: Path) -> None:
        """Make a directory for this user. It may put anything there, so from then on only this user's own processes
        work in it by path. What root opens by path belongs beside it."""
        path.mkdir(mode=0o700)
        os.chown(path, self.number, self.number, follow_symlinks=False)

    def admit(self, directory: Path) -> None:
        """Let this user, and no other, pass through a directory of root's. It can change nothing there."""
        os.chown(directory, 0, self.number, follow_symlinks=False)
        directory.chmod(0o710)

    def hand_over(self, socket: Path, target: Path) -> None:
        """Give a socket of this user's a second name, in a directory of root's, whatever the first leads to later.
        ``socket``: in a directory that this user has. Raises RunError for anything else."""
        descriptor = os.open(socket, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            info = os.fstat(descriptor)
            if not stat.S_ISSOCK(info.st_mode) or info.st_uid != self.number:
                raise RunError(f"{socket} is not the daemon's socket", SESSION_LOG)
            # Without dir_fd, os.link calls link(2), which takes the symlink of /proc itself.
            os.link(f"/proc/self/fd/{descriptor}", target, src_dir_fd=descriptor, follow_symlinks=True)
        finally:
            os.close(descriptor)

    def lines(self) -> dict[Path, str]:
        """Return the line of each file by which the machine knows a user."""
        passwd_start, subordinate = f"{self.name}:x:{self.number}:", f"{self.name}:{self.number + RANGE}:{_SUBORDINATE}"
        texts = f"{passwd_start}{self.number}::/nonexistent:/usr/sbin/nologin", passwd_start, subordinate, subordinate
        return dict(zip(FILES, texts, strict=True))


class SessionUser:
    """Chooses the account when an engine first needs it."""

    def __init__(self) -> None:
        self._account: Account | None = None
        self._lock = Lock()

    def account(self) -> Account:
        """Return the account, the same one each time. Raises MachineError."""
        with self._lock:
            if self._account is None:
                self._account = choose()
            return self._account


def choose() -> Account:
    """Return an account of which nothing on this machine has a number, nor may take one. Raises MachineError."""
    used = list(_used())
    starts = list(range(_LOWEST, _HIGHEST - RANGE - _SUBORDINATE + 1, RANGE))
    SystemRandom().shuffle(starts)
    for account in map(Account, starts):
        account_numbers = account.numbers
        if all(numbers.stop <= account_numbers.start or account_numbers.stop <= numbers.start for numbers in used):
            return account
    raise MachineError(
        f"users, or ranges of /etc/subuid, have all numbers from {_LOWEST} to {_HIGHEST - 1}",
        f"leave {RANGE + _SUBORDINATE} of them free",
    )


def _used() -> Iterator[range]:
    """Yield the numbers of users, groups, processes, and the ranges that users may take (subuid(5))."""
    for number in (*(user.pw_uid for user in pwd.getpwall()), *(group.gr_gid for group in grp.getgrall())):
        yield range(number, number + 1)
    for file in FILES[2:]:
        for line in _lines(file):
            with suppress(ValueError):
                first, count = map(int, line.split(b":")[1:3])
                yield range(first, first + count)
    for process in Path("/proc").glob("[0-9]*/status"):
        for line in _lines(process):
            if line.startswith((b"Uid:", b"Gid:", b"Groups:")):
                yield from (range(number, number + 1) for number in map(int, line.split()[1:]))


def _lines(file: Path) -> list[bytes]:
    with suppress(OSError):  # a process that has ended
        return file.read_bytes().splitlines()
    return []


@contextmanager
def known(account: Account, directory: Path, journal: Journal) -> Iterator[None]:
    """Let the programs of the session know the account: mount a copy of each file with its line over the machine's, for
    this mount namespace alone. ``directory``: for the copies, new. It stays in the session's directory: other daemons
    mount theirs on them, and each unmounts the last ones. Raises RunError."""
    directory.mkdir()
    with ExitStack() as stack:
        if _NAME_CACHE.is_dir():
            stack.enter_context(covered(_NAME_CACHE, journal))
        with _MOUNTING:
            for file, line in account.lines().items():
                copy = directory / file.name
                others = [text for text in _lines(file) if text != line.encode()]
                copy.write_bytes(b"".join(text + b"\n" for text in (line.encode(), *others)))
                copy.chmod(0o644)
                run(["mount", "--bind", copy, file], what=f"mount over {file}")
                stack.callback(_uncover, file)
        yield


def _uncover(file: Path) -> None:
    """Unmount the last copy, unless the kernel has: it does when the machine's own file is replaced meanwhile."""
    with _MOUNTING:
        if mount_of(file).path == file.resolve():
            run(["umount", file])
