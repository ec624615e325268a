"""Backing filesystems that are an NFS export: the user's, or that of a server of the kit's own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from kit.arms.filesystem import nfs_server
from kit.arms.filesystem.backing import Backing, BackingOptions, why_dead
from kit.arms.filesystem.block import unmount
from kit.arms.filesystem.mounted import unconfirmed
from kit.arms.filesystem.plain import own_directory
from kit.arms.filesystem.profile import Profile
from kit.core.errors import MachineError, RunError
from kit.host.command import Process, require, run, talking
from kit.host.kernel_part import NFS, NFS_SERVER, require_part
from kit.host.mounts import mount_of
from kit.host.recovery.journal import Journal

#: Programs that the kit's own server needs: exportfs, rpc.mountd and rpc.nfsd, and those of its network.
_PROGRAMS = ("rpc.nfsd", "rpc.mountd", "exportfs", "ip", "tc", "unshare", "nsenter")
#: Tolerance of a round trip: the machine itself needs some of it.
_FACTOR, _MORE = 1.25, 1.0


@contextmanager
def nfs_backing(
    profile: Profile, options: BackingOptions, where: Path, label: str, journal: Journal
) -> Iterator[Backing]:
    """Yield a new directory of the named export; remove it afterwards. Raises MachineError if the kernel lacks NFS."""
    export = options.export or profile.source
    if not export:
        raise MachineError(
            f"{profile.name}: no export is named", 'use --export HOST:/PATH, or server = "ext4" in the profile'
        )
    if profile.delay:
        raise MachineError(
            f"{profile.name}: the kit delays its own server only, not {export}",
            f"leave out --export, or use @{profile.type} with it",
        )
    top = where.with_name(f"{where.name}-export")
    with _mounted(profile, options, export, top) as backing, own_directory(top, label, where, journal) as path:
        yield replace(backing, path=path)


@contextmanager
def served_backing(
    disk: AbstractContextManager[Backing], profile: Profile, options: BackingOptions, where: Path
) -> Iterator[Backing]:
    """Yield a disk, exported by the kit's own server and mounted from there; its I/O is the arm's. Raises
    MachineError."""
    _check_client()
    require_part(NFS_SERVER, "use --export HOST:/PATH")
    for program in _PROGRAMS:
        require(program)
    with disk as exported, _server(profile, exported.path) as process:
        entered = ("nsenter", f"--net=/proc/{process.pid}/ns/net", "--")
        alive = partial(why_dead, _called(profile), process)
        with _mounted(profile, options, "127.0.0.1:/", where, entered) as backing:
            slow = f", {profile.delay:g} ms each way" if profile.delay else ""
            kind = f"a server of the kit's own{slow}, its disk {exported.type} on {exported.kind}"
            yield replace(backing, kind=kind, device=exported.device, alive=alive)


@contextmanager
def _mounted(
    profile: Profile, options: BackingOptions, export: str, where: Path, entered: Sequence[str] = ()
) -> Iterator[Backing]:
    """``entered``: the command that runs mount in the server's network."""
    _check_client()
    mount_options = options.mount_options(profile)
    where.mkdir(parents=True, exist_ok=True)
    run(
        [*entered, "mount", "-t", "nfs", *(["-o", ",".join(mount_options)] if mount_options else []), export, where],
        what=f"mount of {export}",
    )
    try:
        mount = mount_of(where)
        silent = unconfirmed(profile.name, (*mount_options, *profile.expect), mount)
        yield Backing(profile.name, where, f"export {export}", mount.type, mount.options, None, silent)
    finally:
        unmount(where)


def _check_client() -> None:
    require_part(NFS)
    require("mount.nfs")


@contextmanager
def _server(profile: Profile, directory: Path) -> Iterator[Process]:
    """Run the server, in a network of its own, for the length of the block."""
    private = ("unshare", "--net", "--mount", "--propagation", "private", "--")
    program = (sys.executable, "-I", nfs_server.__file__, str(directory), f"{profile.delay:g}")
    with talking([*private, *program], _called(profile)) as process:
        assert process.stdout
        answer = process.stdout.readline().decode(errors="replace").strip()
        word, _, milliseconds = answer.partition(" ")
        if word != "ready":
            raise MachineError(f"{profile.name}: no NFS server: {answer or 'it has ended'}", "see dmesg")
        _check_delay(profile, float(milliseconds))
        with Path(f"/proc/{process.pid}/ns/net").open("rb") as network:
            try:
                yield process
            finally:
                answer = _farewell(process)
                if not answer:
                    _end_what_is_left(process, network)
        if answer not in ("ended", ""):
            raise RunError(f"{profile.name}: the NFS server did not end well: {answer}", "check /proc/fs/nfsd/threads")


def _called(profile: Profile) -> str:
    return f"the NFS server of {profile.name}"


def _farewell(process: Process) -> str:
    """End the server, and return its answer; '' if it was dead."""
    assert process.stdin and process.stdout
    try:
        process.stdin.write(b"\n")
        process.stdin.flush()
        return process.stdout.readline().decode(errors="replace").strip()
    except BrokenPipeError:
        return ""


def _end_what_is_left(process: Process, network: IO[bytes]) -> None:
    """Clean up after a killed server: the kernel continues to serve in its network, and rpc.mountd keeps its mounts.
    Raises RunError."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    number = network.fileno()
    enter = ["nsenter", f"--net=/proc/self/fd/{number}", "--", "unshare", "--mount", "--propagation", "private", "--"]
    ending = [sys.executable, "-I", nfs_server.__file__]
    run([*enter, *ending], pass_fds=[number], what="ending what a killed NFS server has left")


def _check_delay(profile: Profile, milliseconds: float) -> None:
    """Raises MachineError if the network is slower than requested."""
    requested = 2 * profile.delay
    if profile.delay and not requested <= milliseconds <= requested * _FACTOR + _MORE:
        raise MachineError(
            f"{profile.name}: a round trip takes {milliseconds:.1f} ms here, {requested:g} ms were asked for",
            "use a kernel with CONFIG_HIGH_RES_TIMERS, or another delay in the profile",
        )
