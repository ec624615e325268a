"""Prepares arms: backing filesystems, engines, and a sandbox for each run. Everything is undone in reverse order."""

from __future__ import annotations

import os
import random
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from kit.arms.engines import BackingRoot, Blocker, Engine, EngineConfig, Sandbox, engine_name, make_engine
from kit.arms.engines.copies import as_one
from kit.arms.filesystem import Backing, BackingOptions, make_backing
from kit.arms.image import Image
from kit.core.errors import KitError, said_by_system
from kit.core.paths import find_paths
from kit.host.assumptions import CONTAINER, USER_NAMESPACE, unmet
from kit.host.kernel_part import require_part
from kit.host.machine import Host
from kit.model.arm import BUILD, USERNS, Arm, driver_of, fix_of
from kit.model.drivers import SYSTEM
from kit.model.fact import FILESYSTEM, NO_DIRTIED, UNCONFIRMED, Fact
from kit.model.session import NotRun
from kit.session.setup.caches import drop_names, forget_below, read_below
from kit.session.setup.workers import Step, Workers


@dataclass(frozen=True)
class ProvisionSpec:
    """The common data of all arms of a session."""

    setting: EngineConfig
    host: Host
    options: BackingOptions
    image: Image | None
    inputs: Path | None
    apart: bool = False  # every arm has a filesystem of its own
    cpuset: tuple[int, ...] = ()  # the CPUs of arms' programs; empty: all
    copies: bool = False  # runs of several sandboxes at once are planned


@dataclass(frozen=True)
class LoadSpec:
    """The data of a background load, which is always bare."""

    setting: EngineConfig  # its control group is below the session's
    image: Image
    inputs: Path | None


class Provision:
    """Use as a context manager. ``ready`` says which arms can't run; ``sandbox`` makes a sandbox of another arm."""

    def __init__(self, spec: ProvisionSpec, load: LoadSpec | None = None) -> None:
        self._spec = spec
        self._load = load
        self._load_roots: dict[str, BackingRoot] = {}
        self._backings = ExitStack()
        self._running = ExitStack()
        self._roots: dict[str, BackingRoot] = {}
        self._control_roots: dict[str, BackingRoot] = {}
        self._engines: dict[str, Engine] = {}
        self._workers = Workers()
        self._numbers = count(1)

    def __enter__(self) -> Provision:
        return self

    def __exit__(self, *exception: object) -> None:
        with closing(self._workers), self._backings:  # engines go before the filesystems that they use
            self._running.close()

    def ready(self, arm: Arm) -> NotRun | None:
        """Start what the arm needs for the session. Returns None if it can run, else the reason and the fix."""
        return self.all_ready((arm,)).get(arm)

    def all_ready(self, arms: Sequence[Arm], tell: Callable[[str], None] = lambda text: None) -> dict[Arm, NotRun]:
        """Make all arms ready; return those that can't run. Daemons start in parallel. One thread fills each filesystem
        in the order of the arms, so the position of files does not depend on timing."""
        not_run: dict[Arm, NotRun] = {}
        for arm in arms:
            with _noted(not_run, arm):
                self._open(arm)
        daemons: dict[tuple[object, ...], list[Arm]] = {}
        for arm in (arm for arm in arms if arm not in not_run):
            daemons.setdefault((engine_name(arm), arm.daemon, self._lot(arm)), []).append(arm)
        self._workers.do([[partial(self._start, shared, not_run)] for shared in daemons.values()])
        filesystems: dict[str, list[Step]] = {}
        for arm in (arm for arm in arms if arm not in not_run):
            filesystems.setdefault(self._lot(arm), []).append(partial(self._fill, arm, not_run, tell))
        self._workers.do(list(filesystems.values()))
        return not_run

    def _open(self, arm: Arm) -> None:
        """Open the shared resources of arms, one arm after the other: if two arms want one device, the first one gets
        it."""
        engine = self._engine(arm)
        blocker = engine.check(arm, self._spec.host) or self._blocker(arm)
        if blocker:
            raise KitError(blocker.reason, blocker.fix)
        for kernel, part in ((driver_of(part).kernel, part) for part in arm.parts):
            if kernel and not part.plain_root:
                require_part(kernel, fix_of(part))
        engine.open()
        self._root(arm)
        if self._load:
            self._load_root(arm, self._load)

    def _blocker(self, arm: Arm) -> Blocker | None:
        """Return why the arm can't have what every engine's arms may have."""
        missing = set(self._spec.cpuset) - os.sched_getaffinity(0)
        if missing:
            return Blocker(f"CPU {min(missing)} of --cpuset is not one of this machine's", "see nproc, and lscpu")
        if self._spec.cpuset and arm.placement == BUILD:
            return Blocker("a daemon starts the steps of a build: --cpuset does not reach them", "leave out --cpuset")
        if arm.contained:
            own_users = arm.option(USERNS) or not (self._spec.host.root or arm.engine == SYSTEM)
            for _, lack in unmet(USER_NAMESPACE if own_users else CONTAINER, find_paths()):
                return Blocker(lack.reason, lack.fix)
        if self._spec.copies:
            if arm.placement == "host":
                return Blocker("copies on the host would have different paths", "use bare")
            if arm.engine == SYSTEM:
                return Blocker("copies need a private engine", "leave out --engine system, or run one copy")
            if not self._spec.host.root:
                return Blocker("copies need a common control group", "run as root: sudo kit …")
        return None

    def _start(self, arms: Sequence[Arm], not_run: dict[Arm, NotRun]) -> None:
        with _noted(not_run, *arms):
            self._engine(arms[0]).start(arms[0], self._root(arms[0]))

    def _fill(self, arm: Arm, not_run: dict[Arm, NotRun], tell: Callable[[str], None]) -> None:
        tell(f"setting up {arm}")
        with _noted(not_run, arm):
            engine, backing_root = self._engine(arm), self._root(arm)
            engine.start(arm, backing_root)  # a second time, if another arm's image failed in the same daemon
            engine.fill(arm, backing_root)
            if self._load:
                self._load_root(arm, self._load).unpack_root()
            if arm.nosync:  # once before any run: a machine without such filters can't have the arm
                with self.sandbox(arm):
                    pass

    def unsupported(self, arm: Arm, interfaces: Sequence[str]) -> Blocker | None:
        """Return why a scenario that drives the engine itself can't run on the arm's engine; None if it can."""
        return self._engine(arm).unsupported(interfaces)

    def sync(self, but: Backing | None = None) -> None:
        """Write back what preparations or a run have left dirty, so that it is not charged to the next run. ``but``: a
        backing that is already synced. A dead backing fails its own runs, and no others."""
        for backing_root in self._roots.values():
            if backing_root.backing is not but and not backing_root.backing.alive():
                backing_root.backing.sync()

    def read_all(self) -> None:
        """Bring the root filesystems into the page cache by reading each file from start to end. Without this, the
        first runs would load pages by faults for one arm and by copies for another, with different costs from then on.
        Reads are parallel: the result for a file depends on its own reader alone."""
        inputs = [self._spec.inputs] if self._spec.inputs else []
        self._workers.do([[partial(read_below, top)] for top in (*self._tops(), *inputs)])

    def read_anew(self, order: random.Random) -> None:
        """Drop the cached files of root filesystems, and read them again in a random order. The cost of a copy depends
        by one percent on its place in memory; the new read draws that place again."""
        tops = self._tops()
        self._workers.do([[partial(forget_below, top)] for top in tops])
        drop_names()
        order.shuffle(tops)
        self._workers.do([[partial(read_below, top)] for top in tops])

    def _tops(self) -> list[Path]:
        return [top for backing_root in self._roots.values() for top in sorted(backing_root.backing.path.iterdir())]

    @contextmanager
    def sandbox(self, arm: Arm, copies: int = 1) -> Iterator[Sandbox]:
        """Yield a sandbox, or several as one."""
        backing_root = self._root(arm)
        backing_root.backing.check_alive()
        make = self._copies(arm, backing_root, copies) if copies > 1 else self._engine(arm).sandbox(arm, backing_root)
        with make as sandbox:
            if self._spec.cpuset:
                sandbox.pin(self._spec.cpuset)
            if arm.nosync:
                sandbox.probe.suppress_syncs()
            yield sandbox

    @contextmanager
    def _copies(self, arm: Arm, backing_root: BackingRoot, copies: int) -> Iterator[Sandbox]:
        backing_root = replace(backing_root, group=f"copies-{next(self._numbers)}")
        with ExitStack() as stack:
            sandboxes = [stack.enter_context(self._engine(arm).sandbox(arm, backing_root)) for _ in range(copies)]
            yield as_one(sandboxes)

    @contextmanager
    def beside(self, arm: Arm) -> Iterator[Sandbox]:
        """Yield a sandbox for one run of the background load, on the filesystem of ``arm``."""
        assert self._load
        engine = make_engine("bare", self._load.setting)
        with engine.sandbox(Arm("bare", filesystem=arm.filesystem), self._load_root(arm, self._load)) as sandbox:
            yield sandbox

    @contextmanager
    def fresh_sandbox(self, arm: Arm, copies: int = 1) -> Iterator[Sandbox]:
        """Yield a sandbox, or several as one, on a filesystem of its own, made for this one run."""
        setting = self._spec.setting
        part = f"f{next(self._numbers)}"
        part_setting = replace(setting, run=setting.run / part, cgroup=f"{setting.cgroup}/{part}", part=part)
        part_setting.run.mkdir()
        with Provision(replace(self._spec, setting=part_setting)) as provision:
            blocked = provision.ready(arm)
            if blocked:
                raise KitError(f"{arm}: {blocked.reason}", blocked.fix)
            with provision.sandbox(arm, copies) as sandbox:
                yield sandbox

    def facts(self) -> list[Fact]:
        facts: list[Fact] = []
        for backing in {
            backing_root.backing.name: backing_root.backing for backing_root in self._roots.values()
        }.values():
            name = backing.name
            options = self._spec.options
            mkfs_words = options.mkfs_words(options.profiles[name])
            text = f"{backing.type} on {backing.kind}; mounted {backing.options}{_made(mkfs_words)}"
            facts.append(FILESYSTEM.fact(text, name))
            if backing.unconfirmed:
                facts.append(UNCONFIRMED.fact(",".join(backing.unconfirmed), name))
            if backing.whole_folios:
                facts.append(
                    NO_DIRTIED.fact("the kernel counts whole folios, also where a program changed one byte", name)
                )
        for engine in self._engines.values():
            facts += engine.facts()
        return facts

    def _engine(self, arm: Arm) -> Engine:
        name = engine_name(arm)
        if name not in self._engines:
            engine = make_engine(name, self._spec.setting)
            self._engines[name] = engine
            self._running.callback(engine.close)
        return self._engines[name]

    def _load_root(self, arm: Arm, load: LoadSpec) -> BackingRoot:
        if arm.filesystem not in self._load_roots:
            backing = self._root(arm).backing
            self._load_roots[arm.filesystem] = BackingRoot(backing, load.image, load.inputs, "load-")
        return self._load_roots[arm.filesystem]

    def _lot(self, arm: Arm) -> str:
        """Return the key that distinguishes the arm's filesystem from others."""
        return str(arm) if self._spec.apart else arm.filesystem

    def _root(self, arm: Arm) -> BackingRoot:
        lot = self._lot(arm)
        if lot not in self._roots:
            options, setting = self._spec.options, self._spec.setting
            if options.device is not None and self._roots and arm.filesystem != "dir":
                raise KitError(
                    f"{options.device} holds one filesystem, {arm.filesystem} would be a second",
                    "compare arms of one filesystem on a device, or use loop images",
                )
            part = f"-{len(self._roots)}" if self._spec.apart else ""
            where = setting.run / "fs" / f"{arm.filesystem}{part}"
            backing = make_backing(arm.filesystem, options, where, f"{setting.label}{part}", setting.journal)
            self._roots[lot] = BackingRoot(self._backings.enter_context(backing), self._spec.image, self._spec.inputs)
        if arm.control and arm.plain_root and not self._spec.apart:
            return self._control_root(arm)
        return self._roots[lot]

    def _control_root(self, arm: Arm) -> BackingRoot:
        """Return the control's own backing root, so that it shows the effect of a second copy. The position on disk and
        in memory differs between copies, and no other two arms share their files either."""
        if arm.filesystem not in self._control_roots:
            backing_root = self._roots[arm.filesystem]
            self._control_roots[arm.filesystem] = BackingRoot(
                backing_root.backing, backing_root.image, backing_root.inputs, "control-"
            )
        return self._control_roots[arm.filesystem]


@contextmanager
def _noted(not_run: dict[Arm, NotRun], *arms: Arm) -> Iterator[None]:
    """Record an exception of the block as the reason why the arms do not run."""
    try:
        yield
    except KitError as error:
        reason, fix = error.message, error.hint
    except OSError as error:
        reason, fix = said_by_system(error), "check free space and the right to write there"
    else:
        return
    not_run |= {arm: NotRun(str(arm), reason, fix) for arm in arms}


def _made(words: tuple[str, ...]) -> str:
    return f"; made with {shlex.join(words)}" if words else ""
