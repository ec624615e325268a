"""Backing filesystems in memory: a tmpfs, and one that is written back to a disk."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from kit import filesystem
from kit.core.errors import RunError
from kit.filesystem import write_back
from kit.filesystem.backing import Backing, BackingOptions
from kit.filesystem.block import unmount
from kit.filesystem.mounted import unconfirmed
from kit.filesystem.profile import Profile
from kit.host.command import environment, require, run
from kit.host.journal import Journal
from kit.host.mounts import mount_of


@contextmanager
def memory_backing(
    profile: Profile, options: BackingOptions, where: Path, label: str, journal: Journal
) -> Iterator[Backing]:
    """A tmpfs; with ``profile.write_back`` also the disk that it is copied to, whose I/O is then the arm's."""
    with ExitStack() as stack:
        backing = stack.enter_context(_tmpfs(profile, options, where))
        if profile.write_back:
            require("rsync")
            copy = where.with_name(f"{where.name}-copy")
            disk = stack.enter_context(filesystem.make_backing(profile.write_back, options, copy, label, journal))
            asked = stack.enter_context(_writer(where, disk.path, profile.every))
            kind = f"tmpfs, written back every {profile.every:g} s to {disk.type} on {disk.kind}"
            backing = replace(backing, kind=kind, device=disk.device, write_back=asked)
        yield backing


@contextmanager
def _tmpfs(profile: Profile, options: BackingOptions, where: Path) -> Iterator[Backing]:
    where.mkdir(parents=True, exist_ok=True)
    wanted = [f"size={options.size}", *options.mount_options(profile)]
    run(["mount", "-t", "tmpfs", "-o", ",".join(wanted), "kit", where], what=f"mount {profile.name}")
    try:
        mount = mount_of(where)
        silent = unconfirmed(profile.name, (*wanted, *profile.expect), mount)
        yield Backing(profile.name, where, "tmpfs", mount.type, mount.options, None, silent)
    finally:
        unmount(where)


class _Writer:
    """The program that copies, and the pipe to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self) -> None:
        """Have it copy now, and wait until that is on the disk. Raises RunError."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write("s")
            self._process.stdin.flush()
            answer = self._process.stdout.readline().strip()
        except OSError:
            answer = ""
        if answer != "ok":
            raise RunError(f"writing back failed: {answer or 'its process is gone'}", "is the disk full?")


@contextmanager
def _writer(source: Path, copy: Path, every: float) -> Iterator[partial[None]]:
    process = subprocess.Popen(
        [sys.executable, "-I", write_back.__file__, str(source), str(copy), str(every)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield partial(_Writer.ask, _Writer(process))
    finally:
        process.communicate()  # closes its stdin: it copies once more and ends
