"""User namespaces of engines: the users of a container, or of the whole engine, are others on the machine
(user_namespaces(7))."""

from __future__ import annotations

import os
from pathlib import Path

from kit.arms.engines.account import FILES, SessionUser
from kit.arms.engines.engine import Blocker, EngineConfig
from kit.core.errors import MachineError
from kit.host.command import require
from kit.host.safe_fs import open_directory
from kit.host.user_namespace import why_no_user_namespace
from kit.model.arm import ROOTLESS, USERNS, Arm


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
    missing = [str(file) for file in FILES if not file.exists()]
    if missing:
        return Blocker(f"this machine has no {missing[0]}", f"run sudo touch {' '.join(missing)}")
    program = "rootlesskit" if arm.engine == "docker" else "podman"
    if value == ROOTLESS and (refusal := why_no_user_namespace(program)) != ("", ""):
        return Blocker(*refusal)
    try:
        for tool in ("newuidmap", program) if value == ROOTLESS else ():
            require(tool)
    except MachineError as error:
        return Blocker(error.message, error.hint)
    return None


def guarded(run: Path, name: str = "guarded") -> Path:
    """Return a directory of control directories whose sockets all users may use, so nobody else may enter it."""
    path = run / name
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def guarded_for(setting: EngineConfig, arm: Arm) -> Path:
    """Return the directory of the arm's control directories; the session's own without a user namespace."""
    if not arm.rootless:
        return guarded(setting.run) if arm.option(USERNS) else setting.run
    path = guarded(setting.run, ROOTLESS)
    setting.user.account().admit(path)
    return path


def remap_words(arm: Arm, user: SessionUser) -> tuple[str, ...]:
    """Return the option with which dockerd maps users (dockerd(8), userns-remap); none for other arms."""
    return (f"--userns-remap={user.account().name}",) if arm.option(USERNS) == "remap" else ()


class NumberMap:
    """The numbers that the users and groups of a process's namespace have outside of it."""

    def __init__(self, pid: int) -> None:
        self._users, self._groups = (_read_map(Path(f"/proc/{pid}/{kind}_map")) for kind in ("uid", "gid"))

    @property
    def root(self) -> tuple[int, int]:
        """Return the numbers of its root and root's group."""
        return _outside(self._users, 0), _outside(self._groups, 0)

    def give(self, path: Path) -> None:
        """Give a directory to its root. Raises OSError, also for a symlink."""
        directory = open_directory(path)
        try:
            if self.root[0] not in (0, os.fstat(directory).st_uid):
                os.fchown(directory, *self.root)
        finally:
            os.close(directory)


def _read_map(path: Path) -> list[list[int]]:
    return [[int(word) for word in line.split()] for line in path.read_text().splitlines()]


def _outside(numbers: list[list[int]], inside: int) -> int:
    """Return the number outside (user_namespaces(7)); the same number if the namespace does not have it."""
    outside = (after + inside - first for first, after, count in numbers if first <= inside < first + count)
    return next(outside, inside)
