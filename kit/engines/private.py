"""What engines have in common whose daemons the kit starts itself: nothing of them is shared with the user's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, ExitStack
from itertools import count
from pathlib import Path
from typing import Generic, TypeVar

from kit.core.errors import MachineError
from kit.engines.containerd_program import SHIMS
from kit.engines.engine import Blocker, Setting
from kit.engines.ground import Ground
from kit.engines.place import Place
from kit.engines.root import EngineRoot, engine_root
from kit.engines.supervisor import Home
from kit.host.command import require
from kit.host.machine import Host
from kit.host.namespace import covered
from kit.model.arm import Arm, driver_of, fix_of
from kit.model.fact import Fact

D = TypeVar("D")
_Which = tuple[tuple[str, ...], Path]  # Arm.daemon, and the backing filesystem


class PrivateEngine(ABC, Generic[D]):
    """One daemon for each driver, how it is set up, and backing filesystem; in an engine root, where a version is
    named."""

    root_of: str  # whose engine roots they are
    tools: tuple[str, ...]
    undriven: Blocker | None = None

    def __init__(self, setting: Setting, version: str, tag: str, programs: Path | None = None) -> None:
        """``tag`` begins all names, where several engines share a directory. ``programs``: see EngineRoot."""
        self._setting = setting
        self._version = version
        self._programs = None if version else programs
        self._tag = tag
        self._root = EngineRoot(programs=self._programs)
        self._stack = ExitStack()
        self._daemons: dict[_Which, D] = {}
        self._running: dict[_Which, ExitStack] = {}
        self._filled: set[_Which] = set()
        self._facts: dict[_Which, list[Fact]] = {}
        self._versions: dict[str, str] = {}
        self._numbers = count(1)
        self._opened = False

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        if driver_of(arm).blocker:
            return Blocker(driver_of(arm).blocker, fix_of(arm))
        if not host.root:
            reason = f"a private {self.tools[0]} needs root"
            return Blocker(reason, "run as root: sudo kit …, or --engine system")
        if self._version or self._programs:
            return None  # it brings its own tools
        try:
            self.require_tools(arm)
        except MachineError as error:
            return Blocker(error.message, error.hint)
        return None

    def tools_of(self, arm: Arm) -> tuple[str, ...]:
        """The engine's and the driver's."""
        return (*self.tools, *driver_of(arm).packages)

    def require_tools(self, arm: Arm) -> None:
        """Raises MachineError naming the package of the first that is missing."""
        for tool in self.tools_of(arm):
            require(tool, driver_of(arm).packages.get(tool, ""))

    def open(self) -> None:
        """Have the engine root, or keep the host's shims out of sight."""
        if self._opened:
            return
        if self._version:
            self._root = engine_root(self.root_of, self._version, self._setting.cache, self._setting.tell)
        elif "containerd" in self.tools:
            self._stack.enter_context(covered(SHIMS, self._setting.journal))
        self._opened = True

    def start(self, arm: Arm, ground: Ground) -> None:
        which = (arm.daemon, ground.backing.path)
        if which not in self._daemons:
            with ExitStack() as stack:
                daemon = self.start_daemon(stack, arm, ground)
                self._running[which] = self._stack.enter_context(stack.pop_all())
            self._daemons[which] = daemon

    def fill(self, arm: Arm, ground: Ground) -> None:
        which = (arm.daemon, ground.backing.path)
        if which not in self._filled:
            try:
                self._facts[which] = self.fill_daemon(self._daemons[which], arm, ground)
            except BaseException:
                del self._daemons[which]
                self._running.pop(which).close()
                raise
            self._filled.add(which)
        if arm.plain_root:
            ground.unpack_root()
        if arm.features:
            with self.place(arm, ground):  # what the kernel refuses is known now
                pass

    @abstractmethod
    def start_daemon(self, stack: ExitStack, arm: Arm, ground: Ground) -> D:
        """A daemon that runs until the stack is closed. Raises KitError."""

    @abstractmethod
    def fill_daemon(self, daemon: D, arm: Arm, ground: Ground) -> list[Fact]:
        """Bring the image into it, and say what numbers depend on. Raises KitError."""

    def version(self, tool: str) -> str:
        """What it says of itself, asked once."""
        if tool not in self._versions:
            self._versions[tool] = self._root.version(tool)
        return self._versions[tool]

    @abstractmethod
    def place(self, arm: Arm, ground: Ground) -> AbstractContextManager[Place]: ...

    def home(self, ground: Ground, name: str, driver: str) -> Home:
        """Of a daemon; an engine root sees the session's directory, the backing filesystem and the inputs."""
        setting = self._setting
        shared = tuple(path for path in (setting.run, ground.backing.path, ground.inputs) if path)
        data = ground.backing.path / f"{name}-{driver}"
        return Home(data, setting.run / name, f"{setting.cgroup}/{name}", self._root, shared)

    def new_name(self, kind: str = "") -> str:
        """Short, since paths of sockets are; no two are alike."""
        return f"{self._tag}{kind}{next(self._numbers)}"

    def facts(self) -> list[Fact]:
        """In an order that does not hang on which daemon was the first."""
        return [fact for which in sorted(self._facts) for fact in self._facts[which]]

    def close(self) -> None:
        self._daemons.clear()
        self._stack.close()
