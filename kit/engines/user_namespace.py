"""User namespaces of engines: the users of a container, or of the whole engine, are others on the machine
(user_namespaces(7)). The session gives them numbers that only it sees, in its private mount namespace."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from kit.core.errors import MachineError
from kit.engines.engine import Blocker
from kit.host.command import require, run
from kit.host.user_namespace import why_no_user_namespace
from kit.model.arm import ROOTLESS, USERNS, Arm

#: The user whose subordinate numbers are used, and as whom a rootless engine runs: the one that every machine has.
USER = "nobody"
#: Numbers of one container: those of an ordinary range.
RANGE = 1 << 16
#: The user's numbers, above what useradd(8) and systemd give out: enough for a thousand containers at once.
_FIRST, _NUMBERS = 2_000_000_000, 1024 * RANGE
#: Files with the numbers of users and of groups (subuid(5), subgid(5)).
_FILES = (Path("/etc/subuid"), Path("/etc/subgid"))
_MOUNTING = Lock()


def namespace_blocker(arm: Arm, root: bool, versioned: bool) -> Blocker | None:
    """Return why the arm can't have its user namespace; None if it can, as far as is known before a daemon starts.
    ``versioned``: the engine is in a root of its own."""
    value = arm.option(USERNS)
    if not value:
        return None
    if not root:
        return Blocker("only root can give out numbers of users", f"run as root: sudo kit …, or leave out +{USERNS}")
    if versioned:
        engine = arm.engine.partition("@")[0]
        return Blocker(f"the root of {arm.engine} has no mapped users", f"use {engine} without a version")
    if arm.placement == "tmpfs":
        return Blocker("the kit can't put sources into a tmpfs of other users", "use layer or bind")
    if value == ROOTLESS and (arm.option("cpus") or arm.option("memory")):
        return Blocker("a rootless engine has no control groups to set limits in", "leave out +cpus and +memory")
    missing = next((file for file in _FILES if not file.exists()), None)
    if missing:
        return Blocker(f"this machine has no {missing}", "run sudo touch /etc/subuid /etc/subgid")
    program = "rootlesskit" if arm.engine == "docker" else "podman"
    if value == ROOTLESS and (refusal := why_no_user_namespace(program)) != ("", ""):
        return Blocker(*refusal)
    try:
        for tool in ("newuidmap", program) if value == ROOTLESS else ():
            require(tool)
        account()
    except MachineError as error:
        return Blocker(error.message, error.hint)
    return None


@dataclass(frozen=True)
class Account:
    """``group``: the name of its first group."""

    uid: int
    gid: int
    group: str

    def words(self) -> list[str]:
        """Return the words before a command that this user runs."""
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", "--"]

    def give(self, path: Path) -> None:
        """Make the user the owner of a file or directory."""
        os.chown(path, self.uid, self.gid)


def account() -> Account:
    """Return the user's account. Raises MachineError without one."""
    try:
        found = pwd.getpwnam(USER)
        return Account(found.pw_uid, found.pw_gid, grp.getgrgid(found.pw_gid).gr_name)
    except KeyError:
        raise MachineError(f"this machine has no user {USER}, or not its group", "add it with useradd") from None


def guarded(run: Path, name: str = "guarded") -> Path:
    """Return a directory of control directories whose sockets all users may use, so nobody else may enter it."""
    path = run / name
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def guarded_for(run: Path, arm: Arm) -> Path:
    """Return the directory of the arm's control directories; ``run`` without a user namespace."""
    if not arm.rootless:
        return guarded(run) if arm.option(USERNS) else run
    path = guarded(run, ROOTLESS)
    account().give(path)
    return path


def remap_words(arm: Arm) -> tuple[str, ...]:
    """Return the option with which dockerd maps users (dockerd(8), userns-remap); none for other arms."""
    return (f"--userns-remap={USER}:{account().group}",) if arm.option(USERNS) == "remap" else ()


@contextmanager
def mapped_numbers(file: Path) -> Iterator[None]:
    """Give the user its numbers: mount a file, which is written, over each of the machine's. Raises RunError. It stays
    in the session's directory: other daemons mount theirs on it, and each unmounts the last one."""
    file.write_text(f"{USER}:{_FIRST}:{_NUMBERS}\n")
    file.chmod(0o644)
    with _MOUNTING:
        for target in _FILES:
            run(["mount", "--bind", file, target], what=f"mount over {target}")
    try:
        yield
    finally:
        with _MOUNTING:
            for target in _FILES:
                run(["umount", target])


class NumberMap:
    """The numbers that the users and groups of a process's namespace have outside of it."""

    def __init__(self, pid: int) -> None:
        self._users, self._groups = (_read_map(Path(f"/proc/{pid}/{kind}_map")) for kind in ("uid", "gid"))

    @property
    def root(self) -> tuple[int, int]:
        """Return the numbers of its root and root's group."""
        return _outside(self._users, 0), _outside(self._groups, 0)

    def give(self, path: Path) -> None:
        """Give a file or directory to its root. Raises PermissionError."""
        found = path.stat()
        if self.root[0] not in (0, found.st_uid):
            os.chown(path, *self.root)


def _read_map(path: Path) -> list[list[int]]:
    return [[int(word) for word in line.split()] for line in path.read_text().splitlines()]


def _outside(numbers: list[list[int]], inside: int) -> int:
    """Return the number outside (user_namespaces(7)); the same number if the namespace does not have it."""
    found = (after + inside - first for first, after, count in numbers if first <= inside < first + count)
    return next(found, inside)
