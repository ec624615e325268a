"""An NFS server of the kit's own: exports a directory to a client on the same machine, on a loopback that nobody else
has.

A program of its own, so that it outlives the kit: when the kit dies, whatever way, its end of the pipe closes, and the
server goes on until the client is gone, whose data would have nowhere to go without it. Imports nothing of the kit.

unshare --net --mount --propagation private python -I nfs_server.py DIRECTORY MILLISECONDS
    says "ready" and the milliseconds of a round trip, or why it can't; serves until it reads a line, or until its input
    ends and no client is left, then says "ended", or what failed
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

_CONTROL = Path("/proc/fs/nfsd")
_STATE = Path("/var/lib/nfs")
_ADDRESS, _PORT = "127.0.0.1", 2049
#: As rpc.nfsd has by itself, and as Amazon's EFS is: NFS 4.1 alone, nothing acknowledged before it is on the disk.
_THREADS = "8"
_EXPORT = "rw,sync,no_root_squash,no_subtree_check,fsid=0"
_VERSIONS = "-2 -3 +4 -4.0 +4.1 -4.2"
#: Packets that netem may hold: its own limit of 1,000 is that of a slower network.
_HELD = "100000"
_TRIES = 5
#: Seconds that a client has to say farewell once the kit has unmounted it.
_PATIENCE = 10.0


class _FailedError(Exception):
    """A command that failed, with what it said."""


def call(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise _FailedError(f"{words[0]} ended with {done.returncode}{': ' if said else ''}{'; '.join(said[-2:])}")


def start(directory: str, delay: str) -> subprocess.Popen[bytes]:
    """Serve the directory; returns rpc.mountd, which tells the kernel what is exported."""
    call("ip", "link", "set", "lo", "up")
    call("mount", "-t", "nfsd", "nfsd", str(_CONTROL))
    call("mount", "-t", "tmpfs", "kit", str(_STATE))
    for name in ("etab", "rmtab"):
        (_STATE / name).touch()
    call("exportfs", "-i", "-o", _EXPORT, f"{_ADDRESS}/32:{directory}")
    mountd = subprocess.Popen(
        ["rpc.mountd", "--foreground", "--no-nfs-version", "3"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    (_CONTROL / "versions").write_text(_VERSIONS)
    call("rpc.nfsd", "--host", _ADDRESS, "--no-nfs-version", "3", _THREADS)
    (_CONTROL / "v4_end_grace").write_text("Y")  # nobody has anything to reclaim
    if float(delay):
        call("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", f"{delay}ms", "limit", _HELD)
    return mountd


def round_trip() -> float:
    """Milliseconds, the shortest of a few: to connect takes one."""
    found = []
    for _ in range(_TRIES):
        began = time.monotonic()
        with socket.create_connection((_ADDRESS, _PORT), 10):
            found.append((time.monotonic() - began) * 1e3)
    return min(found)


def clients() -> bool:
    """Whether there is any (Linux 5.3 and later say so)."""
    directory = _CONTROL / "clients"
    return directory.is_dir() and any(directory.iterdir())


def end(directory: str, mountd: subprocess.Popen[bytes], patience: float) -> None:
    """Let go of the directory, and leave no thread."""
    deadline = time.monotonic() + patience
    while clients() and time.monotonic() < deadline:
        time.sleep(0.05)
    call("exportfs", "-u", f"{_ADDRESS}/32:{directory}")
    call("rpc.nfsd", "0")
    mountd.terminate()
    mountd.wait()
    call("exportfs", "-f")


def main(directory: str, delay: str) -> None:
    try:
        mountd = start(directory, delay)
        print(f"ready {round_trip()}", flush=True)
        asked = sys.stdin.readline()
        end(directory, mountd, _PATIENCE if asked else float("inf"))
    except (_FailedError, OSError) as error:
        print(error, flush=True)
        sys.exit(1)
    print("ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
