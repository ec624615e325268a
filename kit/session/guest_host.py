"""Runs a session in a guest: makes its disks, boots it, listens to it, and brings back its logs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from kit.core.errors import RunError
from kit.filesystem.backing import GIB
from kit.filesystem.block import unmount
from kit.guest import Boot, Disk, Machine
from kit.host.beneath import copy_file, plain_files
from kit.host.cgroup import Cgroup
from kit.host.command import ended, run, spawn
from kit.host.interrupt import interruptible
from kit.model.fact import GUEST, stored
from kit.model.session import Session
from kit.session.context import Bench
from kit.session.guest_console import console_log
from kit.session.guest_disks import guest_disks
from kit.session.guest_listener import Guest
from kit.session.guest_protocol import Errand
from kit.session.local import Materials, SessionContext
from kit.session.runlog import MOST_LOG

#: Bytes of all logs that are brought from a guest, holes not counted, and how many files.
MOST_LOGS, MOST_NAMES = 512 << 20, 10_000
#: What log_name makes.
_NAME = re.compile(r"[\w.@+= -]{1,250}", re.ASCII)


def visit(session: Session, context: SessionContext, bench: Bench, materials: Materials, machine: Machine) -> Session:
    """Run the session in a guest; returns it in its final state. Raises KitError, KeyboardInterrupt."""
    machine.check()
    tell = context.observer.tell
    with ExitStack() as stack:
        directory = bench.paths.state / "guest"
        stack.enter_context(bench.setting.journal.directory(directory, 0o700))
        errand = Errand(session, context.scenarios, materials)
        with interruptible():
            disks = guest_disks(errand, context, bench, machine, directory)
        stack.callback(_bring_logs, disks[-1].path, directory / "mounted", bench)
        tell(f"booting {GUEST.text(stored(machine.facts()))}")
        guest = stack.enter_context(_booted(machine, disks, context.host.cores, session, bench, directory))
        return guest.listen(session, context, machine)


@contextmanager
def _booted(
    machine: Machine, disks: list[Disk], cores: int, session: Session, bench: Bench, directory: Path
) -> Iterator[Guest]:
    """A running guest; killed at the end, if it has not powered off by itself."""
    group = Cgroup.named(f"{bench.setting.cgroup}/guest").create()
    console = bench.paths.logs(session.id) / "console.log"
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
    """Half of the host's, 4 GiB at most: files that are read must fit beside the build."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total // 2, 4 * GIB)


def _bring_logs(disk: Path, where: Path, bench: Bench) -> None:
    """Copy the logs of the runs from the guest's disk; its journal is replayed by mounting it. The guest may have
    written another filesystem there, and says in its own what an error does: a panic of the host."""
    where.mkdir()
    words: list[str | Path] = ["mount", "-t", "ext4", "-o", "loop,nodev,nosuid,noexec,errors=remount-ro", disk, where]
    try:
        run(words, what="reading the guest's logs")
    except RunError:
        return  # the guest died before it had a filesystem that can be read; the samples are here
    try:
        left_out = copy_logs(where, bench.setting.session, bench.paths.logs(bench.setting.session))
        if left_out:
            bench.setting.tell(f"{left_out} logs of the guest are left out: together they are too long")
    finally:
        unmount(where)


def copy_logs(disk: Path, session: str, target: Path) -> int:
    """Copy them, and return how many were left out. What ran in the guest was root there: a symlink on its disk would
    lead to files of the host's, a log be as long as the host's disk, and the next one too. Without logs the session is
    whole."""
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
