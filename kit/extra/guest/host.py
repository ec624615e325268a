"""Runs a session in a guest: makes its disks, boots it, receives its messages, and copies its logs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from kit.core.errors import RunError
from kit.extra.guest import Boot, Disk, Machine, Tools
from kit.extra.guest.console import console_log
from kit.extra.guest.disks import guest_disks
from kit.extra.guest.listener import Guest
from kit.extra.guest.session_kernel import with_kernel
from kit.filesystem.backing import GIB
from kit.filesystem.block import unmount
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import ended, run, spawn
from kit.host.interrupt import interruptible
from kit.host.namespace import allow_programs
from kit.host.safe_fs import copy_file, plain_files
from kit.model.fact import GUEST, stored
from kit.model.session import Session
from kit.session.execute.materials import Materials
from kit.session.measure.context import MachineLease
from kit.session.measure.phase_log import MOST_LOG
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
