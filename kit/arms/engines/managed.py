"""Engines whose daemons the kit starts: they share nothing with the user's own daemons.

Each is put together from four parts: the installed programs, what starts their daemons, a storage driver, a client."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from kit.arms.engines.backing_root import BackingRoot
from kit.arms.engines.engine import Blocker, EngineConfig
from kit.arms.engines.oci_runtime import RUNC, named_runc, only_crun, runtime_blocker, runtime_errors, runtime_of
from kit.arms.engines.root import EngineRoot, engine_root
from kit.arms.engines.sandbox import Sandbox
from kit.arms.engines.supervisor import DaemonDirs
from kit.arms.engines.user_namespace import namespace_blocker
from kit.core.errors import MORE_ROOM, MachineError, RunError
from kit.host.command import require, which
from kit.host.machine import Host
from kit.host.namespace import covered
from kit.model.arm import USERNS, Arm, driver_of, fix_of
from kit.model.default import DEFAULT_ENGINE
from kit.model.fact import DRIVER_STATUS, PROGRAM, RUNS, Fact

#: Directories in which daemons and runtimes keep state whatever their options say: containerd's shims their sockets,
#: Docker its plugins, OCI runtimes their containers.
_STATE = tuple(Path("/run") / name for name in ("containerd", "docker", "runc", "crun"))
#: The same in directories that hold the user's own: Podman's networks lie beside logins, its cache beside the storage.
_NESTED = (Path("/run/containers/networks"), Path("/var/lib/containers/cache"))
#: All directories that a session may have made to cover them.
STATE = (*_STATE, *_NESTED, *(path.parent for path in _NESTED))
D = TypeVar("D")
D_co = TypeVar("D_co", covariant=True)
D_contra = TypeVar("D_contra", contravariant=True)
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


@dataclass(frozen=True)
class EngineKind:
    """A kind of engine. ``tools``: the programs that it needs. ``build`` puts it together. ``tag`` begins the names of
    its daemons and containers, ``version_tag`` that of a named version: several engines share a directory.
    ``recorded``: the programs whose versions are facts; empty: all, and those of the driver."""

    root_of: str  # name of the engine whose roots it uses
    tools: tuple[str, ...]
    build: Callable[[Installation], PrivateEngine[Any]]
    tag: str
    version_tag: str
    recorded: tuple[str, ...] = ()

    def __call__(self, setting: EngineConfig, version: str = "") -> PrivateEngine[Any]:
        return self.build(Installation(self, setting, version))


class Installation:
    """The programs of an engine: the machine's, or in an engine root if a version is named."""

    def __init__(self, kind: EngineKind, setting: EngineConfig, version: str = "") -> None:
        self.kind = kind
        self.setting = setting
        self.version = version
        #: A directory whose programs precede those of PATH: a Docker that the user names.
        self.programs = setting.docker if kind.root_of == DEFAULT_ENGINE and not version else None
        self._tag = f"{kind.version_tag}{version}-" if version else kind.tag
        self._root = EngineRoot(programs=self.programs, within=setting.within, network=setting.network)
        self._stack = ExitStack()
        self._versions: dict[str, str] = {}
        self._numbers = count(1)
        self._opened = False

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        """Return what blocks an arm whose daemon runs as root, if anything does."""
        if not host.root:
            reason = f"a private {self.kind.tools[0]} needs root"
            return Blocker(reason, "run as root: sudo kit …, or use --engine system")
        plugin = driver_of(arm).plugin
        if plugin and self.version not in ("", driver_of(arm).root):
            return Blocker(f"{arm.engine} has no {plugin.words[0]}", fix_of(arm))
        versioned = bool(self.version)
        blocked = runtime_blocker(arm, versioned, self.programs)
        blocked = blocked or namespace_blocker(arm, host.root, versioned)
        if blocked or self.version:
            return blocked  # the engine root has its own tools
        return self.missing_tool(arm)

    def missing_tool(self, arm: Arm) -> Blocker | None:
        """Return the first missing tool with its package, or the driver's fix if Debian has none."""
        packages = driver_of(arm).packages
        try:
            for tool in self._tools(arm):
                if (tool == RUNC and only_crun()) or self._is_named(tool):
                    continue
                if packages.get(tool) == "" and not which(tool):
                    return Blocker(f"{tool} is not installed", fix_of(arm))
                require(tool, packages.get(tool, ""))
        except MachineError as error:
            return Blocker(error.message, error.hint)
        return None

    def _tools(self, arm: Arm) -> tuple[str, ...]:
        """Return the tools of the engine and of the driver."""
        return (*self.kind.tools, *driver_of(arm).packages)

    def _is_named(self, tool: str) -> bool:
        """Return whether it is a program of the Docker that the user names."""
        return self.programs is not None and (tool in self.kind.tools or (self.programs / tool).exists())

    def set_up(self) -> None:
        """Find the engine root, or hide the state of the machine's own daemons."""
        if self._opened:
            return
        setting = self.setting
        if self.version:
            root = engine_root(self.kind.root_of, self.version, setting.cache, setting.tell)
            self._root = replace(root, within=setting.within, network=setting.network)
        elif os.geteuid() == 0:
            for path in (*_STATE, *(path if path.parent.is_dir() else path.parent for path in _NESTED)):
                self._stack.enter_context(covered(path, setting.journal))
        if not self.version and not self.programs and (crun := only_crun()):
            self._root = replace(self._root, programs=named_runc(crun, setting.run))
        self._opened = True

    def close(self) -> None:
        self._stack.close()

    def version_of(self, tool: str) -> str:
        """Return the version that a tool reports; it is asked once."""
        if tool not in self._versions:
            self._versions[tool] = self._root.version(tool)
        return self._versions[tool]

    def facts(self, arm: Arm) -> list[Fact]:
        """Return the versions of its programs, and whether they run without root."""
        of, tools = of_engine(arm), self.kind.recorded or self._tools(arm)
        facts = [PROGRAM.fact(self.version_of(tool), f"{tool}{of}") for tool in tools]
        return facts if os.geteuid() == 0 else [*facts, RUNS.fact("rootless", self.kind.tools[0])]

    def home(self, backing_root: BackingRoot, name: str, driver: str, rootless: bool = False) -> DaemonDirs:
        """Return a daemon's directories. An engine root sees the session's directory, the backing filesystem and the
        inputs."""
        setting = self.setting
        shared = tuple(path for path in (setting.run, backing_root.backing.path, backing_root.inputs) if path)
        data = backing_root.backing.path / f"{name}-{driver}"
        user = setting.user.account() if rootless else None
        return DaemonDirs(data, setting.run / name, f"{setting.cgroup}/{name}", self._root, shared, user)

    def new_name(self, kind: str = "") -> str:
        """Return a unique name, short because paths of sockets are limited."""
        return f"{self._tag}{kind}{next(self._numbers)}"


class DaemonStarter(Protocol[D_co]):
    """Starts the daemons of an engine."""

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        """Return what is known to prevent the arm's daemon."""

    def start(
        self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str, options: Sequence[str]
    ) -> D_co:  # fmt: skip
        """Return a daemon that runs until the stack is closed. ``options``: the storage driver's. Raises KitError."""


class StorageDriver(Protocol[D_contra]):
    """The part of an engine that knows its storage drivers."""

    def options(self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str) -> Sequence[str]:
        """Return the options that the daemon needs; make the files and devices that they name until the stack is
        closed. Raises KitError."""

    def status(self, daemon: D_contra) -> str:
        """Return the settings on which numbers depend; '' if the daemon shows none."""


class Client(Protocol[D_contra]):
    """Runs arms with a daemon."""

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        """Return what is known to prevent the arm, whatever its daemon."""

    def load(self, daemon: D_contra, arm: Arm, backing_root: BackingRoot) -> Sequence[Fact]:
        """Load the image into the daemon; return facts on which numbers depend. Raises KitError."""

    def sandbox(
        self, daemon: D_contra, arm: Arm, backing_root: BackingRoot
    ) -> AbstractContextManager[Sandbox]:  # fmt: skip
        """Yield the sandbox of one run, in its first state."""

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        """Return why a scenario that knows these interfaces can't drive the engine; None if it can."""


class PrivateEngine(Generic[D]):
    """Runs one daemon for each driver, configuration and backing filesystem."""

    def __init__(
        self, installation: Installation, starter: DaemonStarter[D], storage: StorageDriver[D], client: Client[D]
    ) -> None:
        self._installation = installation
        self._starter = starter
        self._storage = storage
        self._client = client
        self._stack = ExitStack()
        self._daemons: dict[_Which, D] = {}
        self._running: dict[_Which, ExitStack] = {}
        self._filled: set[_Which] = set()
        self._facts: dict[_Which, list[Fact]] = {}

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        return self._client.check(arm, host) or self._starter.check(arm, host)

    def open(self) -> None:
        self._installation.set_up()

    def start(self, arm: Arm, backing_root: BackingRoot) -> None:
        which = (arm.daemon, backing_root.backing.path)
        if which not in self._daemons:
            with ExitStack() as stack:
                name = self._installation.new_name("d")
                with driver_errors(arm, backing_root):
                    options = self._storage.options(stack, arm, backing_root, name)
                    daemon = self._starter.start(stack, arm, backing_root, name, options)
                self._running[which] = self._stack.enter_context(stack.pop_all())
            self._daemons[which] = daemon

    def daemon(self, arm: Arm, backing_root: BackingRoot) -> D:
        """Return the arm's daemon, which is running."""
        return self._daemons[arm.daemon, backing_root.backing.path]

    def fill(self, arm: Arm, backing_root: BackingRoot) -> None:
        which = (arm.daemon, backing_root.backing.path)
        if which not in self._filled:
            try:
                self._facts[which] = self._load(arm, backing_root)
            except BaseException:
                del self._daemons[which]
                self._running.pop(which).close()
                raise
            self._filled.add(which)
        if runtime := runtime_of(arm):
            fact = PROGRAM.fact(self._installation.version_of(runtime.name), f"{runtime.name}{of_engine(arm)}")
            self._facts[which] += [fact] if fact not in self._facts[which] else []
        if arm.plain_root:
            backing_root.unpack_root()
        if arm.features or runtime_of(arm) or arm.option(USERNS) or only_crun():
            with runtime_errors(arm), self.sandbox(arm, backing_root):  # what refuses to start it is known now
                pass

    def _load(self, arm: Arm, backing_root: BackingRoot) -> list[Fact]:
        """Load the image into the daemon, and return the facts on which numbers depend. Raises KitError."""
        daemon = self.daemon(arm, backing_root)
        status = self._storage.status(daemon)  # without an image
        client_facts = self._client.load(daemon, arm, backing_root)
        place = f"{'+'.join(arm.daemon)}{of_engine(arm)} on {backing_root.backing.name}"
        driver_facts = [DRIVER_STATUS.fact(status, place)] if status else []
        return [*self._installation.facts(arm), *driver_facts, *client_facts]

    def sandbox(self, arm: Arm, backing_root: BackingRoot) -> AbstractContextManager[Sandbox]:
        return self._client.sandbox(self.daemon(arm, backing_root), arm, backing_root)

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        return self._client.unsupported(interfaces)

    def facts(self) -> list[Fact]:
        """Return the facts in an order that does not depend on which daemon was first."""
        return [fact for which in sorted(self._facts) for fact in self._facts[which]]

    def close(self) -> None:
        self._daemons.clear()
        with ExitStack() as stack:
            stack.callback(self._installation.close)
            stack.enter_context(self._stack)
