"""Runs a session in a guest: makes its disks, boots it, receives its messages, and copies its logs."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from kit.arms.filesystem.backing import GIB
from kit.arms.filesystem.block import unmount
from kit.core.errors import RunError
from kit.extra.guest import Boot, Disk, Machine, Tools
from kit.extra.guest.disks import guest_disks
from kit.extra.guest.listener import Guest
from kit.extra.guest.session_kernel import with_kernel
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import ended, run, spawn
from kit.host.interrupt import interruptible
from kit.host.namespace import allow_programs
from kit.host.safe_fs import copy_file, plain_files
from kit.model.fact import GUEST, stored
from kit.model.session import Session
from kit.session.execute.materials import Materials
from kit.session.measure.context import MachineLease
from kit.session.measure.phase_log import HEAD, MOST_LOG, TAIL, cut_middle
from kit.session.prepared import SessionContext
from kit.session.wire.messages import GuestJob

#: Maximum bytes, without holes, and number of all logs that are copied from a guest.
MOST_LOGS, MOST_NAMES = 512 << 20, 10_000
#: The form of the names that log_name makes.
_NAME = re.compile(r"[\w.@+= -]{1,250}", re.ASCII)


def visit(
    session: Session, context: SessionContext, lease: MachineLease, materials: Materials, machine: Machine
) -> Session:
    """Run the session in a guest; return it in its final state. Raises KitError, KeyboardInterrupt."""
    tell = context.events.tell
    with interruptible():
        machine = with_kernel(machine, session, context.prepared.plan.arms, Tools(lease.paths.cache, tell))
    machine.check()
    if warning := machine.warning():
        tell(warning)
    with ExitStack() as stack:
        directory = lease.paths.state / "guest"
        stack.enter_context(lease.setting.journal.directory(directory, 0o700))
        if allow_programs(directory):  # a kernel of User-Mode Linux
            stack.callback(unmount, directory)
        job = GuestJob(session, context.prepared.scenarios, materials)
        with interruptible():
            disks = guest_disks(job, context, lease, machine, directory)
        stack.callback(_bring_logs, disks[-1].path, directory / "mounted", lease)
        tell(f"booting {GUEST.text(stored(machine.facts()))}")
        guest = stack.enter_context(_booted(machine, disks, context.host.cores, session, lease, directory))
        return guest.listen(session, context, machine)


@contextmanager
def _booted(
    machine: Machine, disks: list[Disk], cores: int, session: Session, lease: MachineLease, directory: Path
) -> Iterator[Guest]:
    """A running guest; killed at the end if it has not powered off by itself."""
    group = Cgroup.named(f"{lease.setting.cgroup}/guest").create()
    console = lease.paths.logs(session.id) / "console.log"
    ours, theirs = os.pipe()
    request = session.request
    boot = Boot(disks, request.guest_memory or _memory(), cores, theirs, directory)
    command = machine.command(boot)
    with console_log(console) as output:
        process = spawn(command, output=output, cgroup_procs=group.procs, pass_fds=[theirs])
        output.close()
        os.close(theirs)
        try:
            yield Guest(process, ours, console, machine.patience)
            ended(process, 20)
        finally:
            os.close(ours)
            group.remove()
            process.wait()


def _memory() -> int:
    """Return half of the host's memory, at most 4 GiB: files that are read must fit beside the build."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total // 2, 4 * GIB)


def _bring_logs(disk: Path, where: Path, lease: MachineLease) -> None:
    """Copy the logs of the runs from the guest's disk; mounting it replays its journal. The guest controls the content
    of this filesystem, and its error setting could cause a panic of the host."""
    where.mkdir()
    words: list[str | Path] = ["mount", "-t", "ext4", "-o", "loop,nodev,nosuid,noexec,errors=remount-ro", disk, where]
    try:
        run(words, what="reading the guest's logs")
    except RunError:
        return  # the guest died before its filesystem was readable; the samples are stored already
    try:
        left_out = copy_logs(where, lease.setting.session, lease.paths.logs(lease.setting.session))
        if left_out:
            lease.setting.tell(f"{left_out} logs of the guest are left out: together they are too long")
    finally:
        unmount(where)


def copy_logs(disk: Path, session: str, target: Path) -> int:
    """Copy the logs, and return how many were left out. The guest's root wrote them: a symlink could lead to files of
    the host, and a log could be as large as the host's disk. A session without logs is complete."""
    names = {"session.log": "guest.log", "console.log": "guest-console.log"}  # the host has its own
    room, copied, left_out = MOST_LOGS, 0, 0
    with suppress(OSError), plain_files(disk, ("data", "logs", session)) as files:
        for name, file in files:
            if not _NAME.fullmatch(name) or copied == MOST_NAMES or room <= 0:
                left_out += 1
                continue
            room -= copy_file(file, target / names.get(name, name), MOST_LOG)
            copied += 1
    return left_out


_CHUNK = 1 << 16
#: Seconds in which the reader empties the pipe after the guest's death.
_REST = 10.0


@contextmanager
def console_log(path: Path) -> Iterator[IO[bytes]]:
    """Yield the file to which a guest writes its console. A thread reads it, so the log's size stays limited; no
    measurement waits for it. Close the file once the guest has it."""
    ours, theirs = os.pipe()
    reader = threading.Thread(target=_keep, args=(ours, path), daemon=True)
    reader.start()
    with os.fdopen(theirs, "wb", buffering=0) as console:
        try:
            yield console
        finally:
            console.close()
            reader.join(_REST)


def _keep(descriptor: int, path: Path) -> None:
    cut = 0
    with os.fdopen(descriptor, "rb", buffering=0) as source:
        with path.open("ab", buffering=0) as file:
            file.truncate(0)
            size = 0
            while data := source.read(_CHUNK):
                size += file.write(data)
                if size > HEAD + 2 * TAIL:
                    cut = cut_middle(path, cut)  # whose file is this one: it is appended to
                    size = path.stat().st_size
        cut_middle(path, cut)
