"""Backing filesystems in memory: a tmpfs, and one that is written back to a disk."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from kit.arms.filesystem import write_back
from kit.arms.filesystem.backing import Backing, BackingOptions, why_dead
from kit.arms.filesystem.block import unmount
from kit.arms.filesystem.mounted import unconfirmed
from kit.arms.filesystem.profile import Profile
from kit.core.errors import RunError
from kit.host.command import Process, require, run, talking
from kit.host.mounts import mount_of
from kit.host.recovery.journal import Journal


@contextmanager
def memory_backing(
    profile: Profile, options: BackingOptions, where: Path, label: str, journal: Journal
) -> Iterator[Backing]:
    where.mkdir(parents=True, exist_ok=True)
    mount_options = [f"size={options.size}", *options.mount_options(profile)]
    run(["mount", "-t", "tmpfs", "-o", ",".join(mount_options), "kit", where], what=f"mount {profile.name}")
    try:
        mount = mount_of(where)
        silent = unconfirmed(profile.name, (*mount_options, *profile.expect), mount)
        yield Backing(profile.name, where, "tmpfs", mount.type, mount.options, None, silent)
    finally:
        unmount(where)


@contextmanager
def written_back(
    memory: AbstractContextManager[Backing], disk: AbstractContextManager[Backing], every: float
) -> Iterator[Backing]:
    """Yield a tmpfs that is copied to a disk every ``every`` seconds; the disk's I/O is the arm's."""
    require("rsync")
    with memory as backing, disk as copy, _writer(backing.path, copy.path, every) as process:
        kind = f"tmpfs, written back every {every:g} s to {copy.type} on {copy.kind}"
        alive = partial(why_dead, "the program that writes the tmpfs back", process)
        yield replace(backing, kind=kind, device=copy.device, write_back=partial(_ask, process), alive=alive)


@contextmanager
def _writer(source: Path, copy: Path, every: float) -> Iterator[Process]:
    """Run the program that copies; it copies again at its end."""
    words = [sys.executable, "-I", write_back.__file__, str(source), str(copy), str(every)]
    with talking(words, "the program that writes the tmpfs back") as process:
        yield process


def _ask(process: Process) -> None:
    """Request a copy, and wait until it is on the disk. Raises RunError."""
    assert process.stdin and process.stdout
    try:
        process.stdin.write(b"s")
        process.stdin.flush()
        answer = process.stdout.readline().decode(errors="replace").strip()
    except OSError:
        answer = ""
    if answer != "ok":
        raise RunError(f"writing back failed: {answer or 'its process is gone'}", "check the free space of the disk")
