"""Nested engines: the daemon of an inner engine in a container of an outer one, as CI jobs run Docker in Docker.

The outer container is an ordinary sandbox that lives as long as the session. The inner engine is an ordinary engine:
its backing root is the build tree of that sandbox, its control groups lie below the container's, and its programs share
the container's PIDs, IPC, network and host name. They see the machine's files, in a mount namespace of their own, and
have the machine's rights, as in a privileged container."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from kit.arms.engines.backing_root import BackingRoot
from kit.arms.engines.engine import Blocker, Engine, EngineConfig
from kit.arms.engines.sandbox import Sandbox
from kit.host.cgroup.cgroup import Cgroup, mode
from kit.host.machine import Host
from kit.host.mounts import mount_of, own_path
from kit.model.arm import Arm
from kit.model.fact import Fact

_Which = tuple[tuple[str, ...], Path]  # Arm.daemon, and the backing filesystem


@dataclass(frozen=True)
class _Nest:
    """An outer container, and the engine in it with its backing root."""

    outer: Sandbox
    engine: Engine
    backing_root: BackingRoot


class NestedEngine:
    """Has one engine for all outer containers, and one in each of them."""

    def __init__(self, setting: EngineConfig, make: Callable[[str, EngineConfig], Engine]) -> None:
        """``make``: returns the engine of a name, ``docker@26.1``."""
        self._setting = _part(setting, "n", setting.cgroup)
        self._make = make
        self._outer: dict[str, Engine] = {}
        self._nests: dict[_Which, _Nest] = {}
        self._numbers = count(1)
        self._stack = ExitStack()

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        if not host.root:
            return Blocker("nested engines need root", "run as root: sudo kit …")
        around, inner = self._around(arm), self._make(arm.engine, self._setting)
        return around.check(arm.outside, host) or inner.check(arm.inside, host)

    def open(self) -> None:
        self._setting.run.mkdir(exist_ok=True)
        for engine in self._outer.values():
            engine.open()

    def start(self, arm: Arm, backing_root: BackingRoot) -> None:
        """Leave the start to ``fill``: the outer container needs an image."""

    def fill(self, arm: Arm, backing_root: BackingRoot) -> None:
        which = (arm.daemon, backing_root.backing.path)
        if which not in self._nests:
            with ExitStack() as stack:
                nest = self._nest(stack, arm, backing_root)
                self._stack.enter_context(stack.pop_all())
            self._nests[which] = nest
        nest = self._nests[which]
        nest.engine.start(arm.inside, nest.backing_root)
        nest.engine.fill(arm.inside, nest.backing_root)

    def _nest(self, stack: ExitStack, arm: Arm, backing_root: BackingRoot) -> _Nest:
        """Return a new outer container with an open engine, until the stack is closed. Raises KitError."""
        around, where = arm.outside, _within(backing_root, "nested")
        self._around(arm).start(around, where)
        self._around(arm).fill(around, where)
        outer = stack.enter_context(self._around(arm).sandbox(around, where))
        container = outer.probe.pid
        place = own_path(Path(outer.tree), container)
        setting = _part(self._setting, str(next(self._numbers)), _cgroup_of(container))
        engine = self._make(arm.engine, replace(setting, within=container))
        stack.callback(engine.close)
        setting.run.mkdir()
        engine.open()
        nested_backing = replace(backing_root.backing, name=str(around), path=place, type=mount_of(place).type)
        return _Nest(outer, engine, BackingRoot(nested_backing, backing_root.image, backing_root.inputs))

    @contextmanager
    def sandbox(self, arm: Arm, backing_root: BackingRoot) -> Iterator[Sandbox]:
        nest = self._nests[arm.daemon, backing_root.backing.path]
        with nest.engine.sandbox(arm.inside, replace(nest.backing_root, group=backing_root.group)) as inner:
            yield replace(
                inner,
                backing=backing_root.backing,
                alive=lambda: nest.outer.alive() or inner.alive(),
                own=inner.own or nest.outer.own,
            )

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        return Blocker("a nested engine is not driven by a scenario", "use the inner engine's own arm")

    def facts(self) -> Sequence[Fact]:
        outer = [self._outer[name] for name in sorted(self._outer)]
        inner = [self._nests[which].engine for which in sorted(self._nests)]
        return [fact for engine in (*outer, *inner) for fact in engine.facts()]

    def close(self) -> None:
        self._nests.clear()
        with ExitStack() as stack:
            for engine in self._outer.values():
                stack.callback(engine.close)
            stack.enter_context(self._stack)

    def _around(self, arm: Arm) -> Engine:
        name = arm.outside.engine
        if name not in self._outer:
            self._outer[name] = self._make(name, self._setting)
        return self._outer[name]


def _part(setting: EngineConfig, name: str, cgroup: str) -> EngineConfig:
    """Return the settings of engines whose names repeat those of others."""
    return replace(setting, run=setting.run / name, cgroup=f"{cgroup}/{name}", part=f"{setting.part}{name}")


def _cgroup_of(container: int) -> str:
    """Return the name of a container's control group, in which others can be made. On v2 none of them would have a
    controller while the group has processes of its own (Documentation/admin-guide/cgroup-v2.rst)."""
    name = Cgroup.of(container).name
    if mode() == "v2":
        Cgroup.named(f"{name}/outer").create().adopt(container)
    return name


def _within(backing_root: BackingRoot, name: str) -> BackingRoot:
    """Return a directory of the backing root as one of its own."""
    backing = backing_root.backing
    path = backing.path / name
    path.mkdir(exist_ok=True)
    return BackingRoot(replace(backing, path=path), backing_root.image, backing_root.inputs)
