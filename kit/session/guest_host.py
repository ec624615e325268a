"""Sends a session into a guest, and brings back what it measures: each sample is in the host's store as soon as it
exists, whatever becomes of the guest."""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import assert_never

from kit.core.codec import encode
from kit.core.errors import MachineError, RunError
from kit.engines.root import image_root, root_name, versions
from kit.filesystem.backing import GIB
from kit.filesystem.block import unmount
from kit.guest import Boot, Disk, Machine, Tools
from kit.guest.disk import cached_disk, make_disk
from kit.guest.machine import COPY, READ, WRITE
from kit.guest.python import python_disk
from kit.host.beneath import copy_file, plain_files
from kit.host.cgroup import Cgroup
from kit.host.command import Process, ended, run, spawn
from kit.host.interrupt import interruptible
from kit.image import unpack
from kit.model.drivers import kernel_modules
from kit.model.fact import GUEST, HOST_CPU, HOST_KERNEL, MACHINE, Fact, stored
from kit.model.sample import Sample
from kit.model.session import Session
from kit.session.guest_protocol import (
    Done,
    Errand,
    Extended,
    Failed,
    Finished,
    Flagged,
    Hello,
    Kept,
    Measured,
    Message,
    MessageReader,
    Planned,
    Running,
    Shown,
    Tell,
    Updated,
)
from kit.session.local import Materials, SessionContext
from kit.session.loop import Bench
from kit.session.runlog import MOST_LOG

#: Where the guest has what the host keeps in its data and cache directories.
_DATA, _CACHE = "/kit/data", Path("/kit/cache")
_LAST_LINES = 5
#: Bytes that must be free where the guest's disk grows.
_ROOM = 8 * GIB


def visit(session: Session, context: SessionContext, bench: Bench, materials: Materials, machine: Machine) -> Session:
    """Run the session in a guest; returns it in its final state. Raises KitError, KeyboardInterrupt."""
    machine.check()
    tell = context.observer.tell
    with ExitStack() as stack:
        directory = bench.paths.state / "guest"
        stack.enter_context(bench.setting.journal.directory(directory, 0o700))
        errand = Errand(session, context.scenarios, materials)
        with interruptible():
            disks = _disks(errand, context, bench, machine, directory)
        stack.callback(_bring_logs, disks[-1].path, directory / "mounted", bench)
        tell(f"booting {GUEST.text(stored(machine.facts()))}")
        guest = stack.enter_context(_booted(machine, disks, context.host.cores, session, bench, directory))
        return guest.listen(session, context, machine)


def _disks(errand: Errand, context: SessionContext, bench: Bench, machine: Machine, directory: Path) -> list[Disk]:
    tools = Tools(bench.paths.cache, context.observer.tell)
    tell, where = context.observer.tell, tools.directory
    image = tools.image("guest")
    init = resources.files("kit.guest").joinpath("init.sh").read_bytes()
    drivers = " ".join(kernel_modules())

    def fill_root(scratch: Path) -> Path:
        root = scratch / "root"
        unpack(image, root)
        (root / "kit-init").write_bytes(init)
        (root / "kit-init").chmod(0o755)
        (root / "kit-modules").write_text(drivers)
        return root

    key = hashlib.sha256(image.digest.encode() + init + drivers.encode()).hexdigest()[:16]
    root = cached_disk(where, "root", key, fill_root, 2 * GIB, tell)
    inputs = _cache_disk(errand, context, bench, tools)
    disks = [Disk(root, COPY), Disk(python_disk(where, tell), READ), Disk(inputs, COPY)]
    modules = machine.modules()
    if modules:
        facts = [f"{path.name} {path.lstat().st_size} {path.lstat().st_mtime_ns}" for path in sorted(modules.iterdir())]
        key = hashlib.sha256(f"{modules} {facts}".encode()).hexdigest()[:16]
        disks.append(Disk(cached_disk(where, "modules", key, lambda scratch: modules, 0, tell), READ))
    free = shutil.disk_usage(directory).free
    if free < _ROOM:
        raise MachineError(
            f"{directory} has {free / GIB:.1f} GiB free, a guest's disk may grow beyond that",
            f"free {_ROOM / GIB:.0f} GiB, or set KIT_HOME to a larger disk",
        )
    data = directory / "errand"
    (data / "data").mkdir(parents=True)
    (data / "data/errand.json").write_text(errand_text(errand, bench.paths.cache))
    make_disk(data, directory / "data.img", "kit-data", 4 * (errand.session.request.size or 20 * GIB))
    return [*disks, Disk(directory / "data.img", WRITE)]


def errand_text(errand: Errand, cache: Path) -> str:
    """The errand as the guest reads it: what the host has in its cache lies elsewhere there."""

    def place(path: Path) -> Path:
        return _CACHE / path.relative_to(cache) if path.is_relative_to(cache) else path

    return json.dumps(encode(errand, place))


def _cache_disk(errand: Errand, context: SessionContext, bench: Bench, tools: Tools) -> Path:
    """The part of the host's cache that this session needs, under the same names."""
    cache = bench.paths.cache
    materials, wanted = errand.materials, {bench.setting.probe}
    images = [materials.image, materials.load.image if materials.load else None]
    wanted |= {image.rootfs.parent for image in images if image}
    for folders in (materials.folders, materials.load.folders if materials.load else {}):
        wanted |= {prepared.path for items in folders.values() for prepared in items}
    for arm in context.plan.arms:
        engine, _, version = arm.engine.partition("@")
        if version in versions(engine):
            root = image_root(root_name(engine, version), cache, tools.tell)
            image = tools.image(root_name(engine, version))
            wanted |= {image.rootfs.parent, *([root.path] if root.path else [])}

    def fill(scratch: Path) -> Path:
        for path in sorted(wanted):
            copy = scratch / "cache" / path.relative_to(cache)
            copy.parent.mkdir(parents=True, exist_ok=True)
            run(["cp", "-al", path, copy])
        return scratch / "cache"

    key = hashlib.sha256("\n".join(sorted(map(str, wanted))).encode() + _digest(materials)).hexdigest()[:16]
    return cached_disk(tools.directory, "cache", key, fill, 8 * GIB, tools.tell)


def _digest(materials: Materials) -> bytes:
    found = [item.digest for items in materials.folders.values() for item in items]
    found += [materials.image.digest] if materials.image else []
    if materials.load:
        found.append(_digest(Materials(materials.load.image, materials.load.folders)).hex())
    return hashlib.sha256(" ".join(found).encode()).digest()


@contextmanager
def _booted(
    machine: Machine, disks: list[Disk], cores: int, session: Session, bench: Bench, directory: Path
) -> Iterator[_Guest]:
    """A running guest; killed at the end, if it has not powered off by itself."""
    group = Cgroup.named(f"{bench.setting.cgroup}/guest").create()
    console = bench.paths.data / "logs" / session.id / "console.log"
    ours, theirs = os.pipe()
    request = session.request
    boot = Boot(
        disks,
        request.guest_memory or _memory(),
        cores,
        theirs,
        directory,
    )
    command = machine.command(boot)
    with console.open("wb") as output:
        process = spawn(command, output=output, cgroup_procs=group.procs, pass_fds=[theirs])
    os.close(theirs)
    try:
        yield _Guest(process, ours, console, machine.patience)
        ended(process, 20)
    finally:
        os.close(ours)
        group.remove()
        process.wait()


def _memory() -> int:
    """Half of the host's, 4 GiB at most: files that are read must fit beside the build."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total // 2, 4 * GIB)


class _Guest:
    def __init__(self, process: Process, channel: int, console: Path, patience: float) -> None:
        self._process = process
        self._channel = channel
        self._console = console
        self._patience = patience

    def listen(self, session: Session, context: SessionContext, machine: Machine) -> Session:
        """Do what the guest says until it is done. Raises KitError: the guest's own, or that it has died."""
        host = _Host(session, context, self._facts(machine, context), self._console.parent.parent)
        for message in self._messages():
            match message:
                case Failed():
                    raise message.error()
                case Done():
                    return host.mended(message.session)
                case Measured() | Flagged() | Updated():
                    host.keep(message)
                case _:
                    host.show(message)
        raise RunError(f"the guest ended early: {self._last_words()}", f"its console: {self._console}")

    def _facts(self, machine: Machine, context: SessionContext) -> list[Fact]:
        host = context.host
        here = [HOST_KERNEL.fact(host.kernel), HOST_CPU.fact(host.cpu), MACHINE.fact(host.machine)]
        return [*machine.facts(), *here]

    def _messages(self) -> Iterator[Message]:
        """What it says, until it says no more. Raises RunError where it never begins, UnreadableError."""
        lines = MessageReader()
        deadline = time.monotonic() + self._patience
        heard = False
        while True:
            with interruptible():
                ready, _, _ = select.select([self._channel], [], [], 0.5)
            chunk = os.read(self._channel, 1 << 16) if ready else None
            if chunk == b"" or (chunk is None and self._process.poll() is not None):
                return
            if chunk is None:
                if not heard and time.monotonic() > deadline:
                    raise RunError(
                        f"the guest says nothing after {self._patience:.0f} s: {self._last_words()}",
                        f"its console: {self._console}",
                    )
                continue
            for message in lines.feed(chunk):
                heard = True
                yield message

    def _last_words(self) -> str:
        lines = [line for line in self._console.read_text(errors="replace").splitlines() if line.strip()]
        return "\n  | ".join(["", *lines[-_LAST_LINES:]]) if lines else "its console is empty"


class _Host:
    """The host's side of the session: store and observer, told what the guest says."""

    def __init__(self, session: Session, context: SessionContext, facts: list[Fact], logs: Path) -> None:
        self._session = session
        self._context = context
        self._facts = facts
        self._logs = logs.parent
        self._last: Sample | None = None

    def keep(self, message: Kept) -> None:
        store, name = self._context.store, self._session.id
        match message:
            case Measured():
                self._last = self._logged_here(message.sample)
                store.add_sample(name, self._last)
            case Flagged():
                store.set_flags(name, message.arm, message.point, message.block, message.flags)
            case Updated():
                store.update(self.mended(message.session))
            case _:
                assert_never(message)

    def show(self, message: Shown) -> None:
        observer = self._context.observer
        match message:
            case Hello():
                observer.tell(f"the guest runs {message.kernel}")
            case Tell():
                observer.tell(message.text)
            case Planned():
                observer.planned(message.steps, message.done)
            case Extended():
                observer.extended(message.steps, message.reason)
            case Running():
                observer.running(message.step, message.phase)
            case Finished():
                if self._last:
                    observer.finished(message.step, self._last)
            case _:
                assert_never(message)

    def mended(self, session: Session) -> Session:
        """With what only the host knows."""
        samples = tuple(map(self._logged_here, session.samples))
        return replace(session.with_facts(self._facts), samples=samples)

    def _logged_here(self, sample: Sample) -> Sample:
        """Its log is named by where the host will have it; those of an earlier start are named so already."""
        if not sample.log.startswith(f"{_DATA}/"):
            return sample
        return replace(sample, log=f"{self._logs}{sample.log.removeprefix(_DATA)}")


def _bring_logs(disk: Path, where: Path, bench: Bench) -> None:
    """Copy the logs of the runs from the guest's disk; its journal is replayed by mounting it."""
    where.mkdir()
    try:
        run(["mount", "-o", "loop,nodev,nosuid,noexec", disk, where], what="reading the guest's logs")
    except RunError:
        return  # the guest died before it had a filesystem that can be read; the samples are here
    try:
        copy_logs(where, bench.setting.session, bench.paths.data / "logs" / bench.setting.session)
    finally:
        unmount(where)


def copy_logs(disk: Path, session: str, target: Path) -> None:
    """What ran in the guest was root there: a symlink on its disk would lead to files of the host's, and a log be as
    long as the host's disk. Without logs the session is whole."""
    names = {"session.log": "guest.log", "console.log": "guest-console.log"}  # the host has its own
    with suppress(OSError), plain_files(disk, ("data", "logs", session)) as files:
        for name, file in files:
            copy_file(file, target / names.get(name, name), MOST_LOG)
