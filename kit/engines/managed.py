"""The common part of engines whose daemons the kit starts: they share nothing with the user's own daemons."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Generic, TypeVar

from kit.core.errors import MORE_ROOM, MachineError, RunError
from kit.engines.backing_root import BackingRoot
from kit.engines.engine import Blocker, EngineConfig
from kit.engines.oci_runtime import RUNC, named_runc, only_crun, runtime_blocker, runtime_errors, runtime_of
from kit.engines.root import EngineRoot, engine_root
from kit.engines.sandbox import Sandbox
from kit.engines.supervisor import DaemonDirs
from kit.engines.user_namespace import namespace_blocker
from kit.host.command import require, which
from kit.host.machine import Host
from kit.host.namespace import covered
from kit.model.arm import USERNS, Arm, driver_of, fix_of
from kit.model.default import DEFAULT_ENGINE
from kit.model.fact import PROGRAM, Fact
from kit.model.scenario import DOCKER

#: Directories in which daemons and runtimes keep state whatever their options say: containerd's shims their sockets,
#: Docker its plugins, OCI runtimes their containers.
_STATE = tuple(Path("/run") / name for name in ("containerd", "docker", "runc", "crun"))
#: The same in directories that hold the user's own: Podman's networks lie beside logins, its cache beside the storage.
_NESTED = (Path("/run/containers/networks"), Path("/var/lib/containers/cache"))
#: All directories that a session may have made to cover them.
STATE = (*_STATE, *_NESTED, *(path.parent for path in _NESTED))
D = TypeVar("D")
_Which = tuple[tuple[str, ...], Path]  # Arm.daemon, and the backing filesystem


@contextmanager
def driver_errors(arm: Arm, backing_root: BackingRoot) -> Iterator[None]:
    """Name the driver and the backing filesystem in an error of a daemon; a full filesystem takes precedence as the
    reason. Raises RunError."""
    backing = backing_root.backing
    try:
        yield
    except RunError as error:
        full = backing.full()
        hint = MORE_ROOM if full else fix_of(arm, backing.type) or error.hint
        raise RunError(f"{arm.driver} on {backing.name}: {full or error.message}", hint) from None


def of_engine(arm: Arm) -> str:
    """Return the words that name the engine of a fact; none for the default engine."""
    return "" if arm.engine == DEFAULT_ENGINE else f" of {arm.engine}"


class PrivateEngine(ABC, Generic[D]):
    """Runs one daemon for each driver, configuration and backing filesystem; in an engine root if a version is
    named."""

    root_of: str  # name of the engine whose roots it uses
    tools: tuple[str, ...]

    def __init__(self, setting: EngineConfig, version: str, tag: str, programs: Path | None = None) -> None:
        """``tag`` begins all names, for engines that share a directory. ``programs``: see EngineRoot."""
        self._setting = setting
        self._version = version
        self._programs = None if version else programs
        self._tag = tag
        self._root = EngineRoot(programs=self._programs, within=setting.within, network=setting.network)
        self._stack = ExitStack()
        self._daemons: dict[_Which, D] = {}
        self._running: dict[_Which, ExitStack] = {}
        self._filled: set[_Which] = set()
        self._facts: dict[_Which, list[Fact]] = {}
        self._versions: dict[str, str] = {}
        self._numbers = count(1)
        self._opened = False

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        if not host.root:
            reason = f"a private {self.tools[0]} needs root"
            return Blocker(reason, "run as root: sudo kit …, or use --engine system")
        plugin = driver_of(arm).plugin
        if plugin and self._version not in ("", driver_of(arm).root):
            return Blocker(f"{arm.engine} has no {plugin.words[0]}", fix_of(arm))
        versioned = bool(self._version)
        blocked = runtime_blocker(arm, versioned, self._programs)
        blocked = blocked or namespace_blocker(arm, host.root, versioned)
        if blocked or self._version or self._programs:
            return blocked  # the engine root has its own tools
        try:
            self.require_tools(arm)
        except MachineError as error:
            return Blocker(error.message, error.hint)
        return None

    def tools_of(self, arm: Arm) -> tuple[str, ...]:
        """Return the tools of the engine and of the driver."""
        return (*self.tools, *driver_of(arm).packages)

    def require_tools(self, arm: Arm) -> None:
        """Raises MachineError with the package of the first missing tool, or the driver's fix if Debian has none."""
        packages = driver_of(arm).packages
        for tool in self.tools_of(arm):
            if tool == RUNC and only_crun():
                continue
            if packages.get(tool) == "" and not which(tool):
                raise MachineError(f"{tool} is not installed", fix_of(arm))
            require(tool, packages.get(tool, ""))

    def open(self) -> None:
        """Open the engine root, or hide the state of the machine's own daemons."""
        if self._opened:
            return
        if self._version:
            root = engine_root(self.root_of, self._version, self._setting.cache, self._setting.tell)
            self._root = replace(root, within=self._setting.within, network=self._setting.network)
        elif os.geteuid() == 0:
            for path in (*_STATE, *(path if path.parent.is_dir() else path.parent for path in _NESTED)):
                self._stack.enter_context(covered(path, self._setting.journal))
        if not self._version and not self._programs and (crun := only_crun()):
            self._root = replace(self._root, programs=named_runc(crun, self._setting.run))
        self._opened = True

    def start(self, arm: Arm, backing_root: BackingRoot) -> None:
        which = (arm.daemon, backing_root.backing.path)
        if which not in self._daemons:
            with ExitStack() as stack:
                daemon = self.start_daemon(stack, arm, backing_root)
                self._running[which] = self._stack.enter_context(stack.pop_all())
            self._daemons[which] = daemon

    def fill(self, arm: Arm, backing_root: BackingRoot) -> None:
        which = (arm.daemon, backing_root.backing.path)
        if which not in self._filled:
            try:
                self._facts[which] = self.fill_daemon(self._daemons[which], arm, backing_root)
            except BaseException:
                del self._daemons[which]
                self._running.pop(which).close()
                raise
            self._filled.add(which)
        if runtime := runtime_of(arm):
            fact = PROGRAM.fact(self.version(runtime.name), f"{runtime.name}{of_engine(arm)}")
            self._facts[which] += [fact] if fact not in self._facts[which] else []
        if arm.plain_root:
            backing_root.unpack_root()
        if arm.features or runtime_of(arm) or arm.option(USERNS) or only_crun():
            with runtime_errors(arm), self.sandbox(arm, backing_root):  # what refuses to start it is known now
                pass

    @abstractmethod
    def start_daemon(self, stack: ExitStack, arm: Arm, backing_root: BackingRoot) -> D:
        """Return a daemon that runs until the stack is closed. Raises KitError."""

    @abstractmethod
    def fill_daemon(self, daemon: D, arm: Arm, backing_root: BackingRoot) -> list[Fact]:
        """Load the image into the daemon, and return the facts on which numbers depend. Raises KitError."""

    def version(self, tool: str) -> str:
        """Return the version that a tool reports; it is asked once."""
        if tool not in self._versions:
            self._versions[tool] = self._root.version(tool)
        return self._versions[tool]

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        return (
            None
            if DOCKER in interfaces
            else Blocker("the scenario does not use Docker's API", f'add "{DOCKER}" to engine in its file')
        )

    @abstractmethod
    def sandbox(self, arm: Arm, backing_root: BackingRoot) -> AbstractContextManager[Sandbox]: ...

    def home(self, backing_root: BackingRoot, name: str, driver: str, rootless: bool = False) -> DaemonDirs:
        """Return a daemon's directories. An engine root sees the session's directory, the backing filesystem and the
        inputs."""
        setting = self._setting
        shared = tuple(path for path in (setting.run, backing_root.backing.path, backing_root.inputs) if path)
        data = backing_root.backing.path / f"{name}-{driver}"
        user = setting.user.account() if rootless else None
        return DaemonDirs(data, setting.run / name, f"{setting.cgroup}/{name}", self._root, shared, user)

    def new_name(self, kind: str = "") -> str:
        """Return a unique name, short because paths of sockets are limited."""
        return f"{self._tag}{kind}{next(self._numbers)}"

    def facts(self) -> list[Fact]:
        """Return the facts in an order that does not depend on which daemon was first."""
        return [fact for which in sorted(self._facts) for fact in self._facts[which]]

    def close(self) -> None:
        self._daemons.clear()
        self._stack.close()
