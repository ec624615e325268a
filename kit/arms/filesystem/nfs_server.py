"""An NFS server of the kit's own: exports a directory to a client on the same machine, on a loopback that nobody else
has.

A program of its own, so that it outlives the kit: when the kit dies, whatever way, its end of the pipe closes, and the
server goes on until the client is gone, whose data would have nowhere to go without it. Imports nothing of the kit.

unshare --net --mount --propagation private python -I nfs_server.py DIRECTORY MILLISECONDS
    says "ready" and the milliseconds of a round trip, or why it can't; serves until it reads a line, or until its input
    ends and no client is left, then says "ended", or what failed

nsenter --net=… unshare --mount --propagation private python -I nfs_server.py
    ends the kernel's part of one that was killed
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

_CONTROL = Path("/proc/fs/nfsd")
_STATE = Path("/var/lib/nfs")
_ADDRESS, _PORT = "127.0.0.1", 2049
#: As rpc.nfsd has by itself, and as Amazon's EFS is: NFS 4.1 alone, nothing acknowledged before it is on the disk.
_THREADS = "8"
_EXPORT = "rw,sync,no_root_squash,no_subtree_check,fsid=0"
#: Seconds in which clients of an earlier server could reclaim their state: the kernel's minimum.
_GRACE = "10"
#: Packets that netem may queue: its own limit of 1,000 would slow the network down.
_HELD = "100000"
#: Round trips, of which the shortest counts: other work of the machine lengthens most of them.
_TRIES = 30
#: Seconds within which a client must unregister after the kit has unmounted it.
_PATIENCE = 10.0


class _FailedError(Exception):
    """A failed command, with its message."""


def call(*words: str) -> None:
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    if process.returncode:
        messages = [line for line in (process.stderr + process.stdout).splitlines() if line.strip()]
        raise _FailedError(
            f"{words[0]} ended with {process.returncode}{': ' if messages else ''}{'; '.join(messages[-2:])}"
        )


def start(stack: ExitStack, directory: str, delay: str) -> None:
    """Serve the directory until the stack is closed, which releases it and ends all threads."""
    call("ip", "link", "set", "lo", "up")
    mount_control()
    call("mount", "-t", "tmpfs", "kit", str(_STATE))
    for name in ("etab", "rmtab"):
        (_STATE / name).touch()
    export = f"{_ADDRESS}/32:{directory}"
    stack.callback(call, "exportfs", "-f")
    call("exportfs", "-i", "-o", _EXPORT, export)
    stack.callback(call, "exportfs", "-u", export)
    # It tells the kernel what is exported.
    words = ["rpc.mountd", "--foreground", "-N", "2", "-N", "3"]
    mountd = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    stack.callback(mountd.wait)
    stack.callback(mountd.terminate)
    where = ("--host", _ADDRESS, "--port", str(_PORT))
    call("rpc.nfsd", *where, "-N", "3", "-N", "4.0", "-N", "4.2", "--grace-time", _GRACE, _THREADS)
    stack.callback(stop_serving)
    end_grace()
    if float(delay):
        call("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", f"{delay}ms", "limit", _HELD)


def mount_control() -> None:
    call("mount", "-t", "nfsd", "nfsd", str(_CONTROL))


def stop_serving() -> None:
    """Stop the kernel's threads and exports."""
    call("rpc.nfsd", "0")


def end_grace() -> None:
    """End the grace period: no client has anything to reclaim. A kernel without a record of clients waits for its
    end."""
    ended = _CONTROL / "v4_end_grace"
    with suppress(OSError):
        ended.write_text("Y")
    deadline = time.monotonic() + 2 * float(_GRACE)
    while ended.read_text().strip() != "Y":
        if time.monotonic() > deadline:
            raise _FailedError("the server waits for clients of an earlier one")
        time.sleep(0.05)


def round_trip() -> float:
    """Return the milliseconds of the shortest of a few round trips: a connection takes one."""
    times = []
    for _ in range(_TRIES):
        began = time.monotonic()
        with socket.create_connection((_ADDRESS, _PORT), 10):
            times.append((time.monotonic() - began) * 1e3)
    return min(times)


def clients() -> bool:
    """Return whether the kernel has clients (Linux 5.3 and later report them)."""
    directory = _CONTROL / "clients"
    return directory.is_dir() and any(directory.iterdir())


def wait_for_clients(patience: float) -> None:
    """Wait until all clients have unregistered, at most this number of seconds."""
    deadline = time.monotonic() + patience
    while clients() and time.monotonic() < deadline:
        time.sleep(0.05)


def end() -> None:
    try:
        mount_control()
        stop_serving()
    except _FailedError as error:
        sys.exit(str(error))


def serve(directory: str, delay: str) -> None:
    try:
        with ExitStack() as stack:
            start(stack, directory, delay)
            print(f"ready {round_trip()}", flush=True)
            request = sys.stdin.readline()
            wait_for_clients(_PATIENCE if request else float("inf"))
    except (_FailedError, OSError) as error:
        print(error, flush=True)
        sys.exit(1)
    print("ended", flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        serve(*sys.argv[1:])
    else:
        end()
