"""Keeps a copy of a directory in memory on a disk: every N seconds, when asked, and again at the end.

A program of its own, so that it outlives the kit: when the kit dies, whatever way, its end of the pipe closes, and the
last state is copied before the memory is gone. Each file of the copy is whole at every moment, in its old or its new
state: rsync puts all changed files in place at the end of a transfer. Imports nothing of the kit.

python -I write_back.py SOURCE COPY SECONDS   reads one byte per request from stdin, answers each with one line
"""

from __future__ import annotations

import os
import select
import subprocess
import sys

#: Owners, hard links, attributes; one filesystem: mounts below belong to another one. A policy of the machine's labels
#: the copy itself, and may refuse the labels of memory (rsync(1), xattr filters; the second is rsync's own default).
_ATTRIBUTES = ("--filter=-x security.selinux", "--filter=-x system.*")
RSYNC = ("rsync", "-aHAXx", *_ATTRIBUTES, "--numeric-ids", "--delete-delay", "--delay-updates")
#: Files that vanish during the copy are not a failure.
_VANISHED = 24


def copy(source: str, target: str) -> str:
    """Copy all changes and write them to the disk. Returns 'ok' or the failure."""
    process = subprocess.run([*RSYNC, f"{source}/", f"{target}/"], capture_output=True, text=True, check=False)
    subprocess.run(["sync", "-f", target], check=False)
    if process.returncode in (0, _VANISHED):
        return "ok"
    return (process.stderr.strip().splitlines() or [f"rsync ended with {process.returncode}"])[-1]


def main(source: str, target: str, seconds: str) -> None:
    while True:
        ready = select.select([0], [], [], float(seconds))[0]
        last = bool(ready) and not os.read(0, 1)
        answer = copy(source, target)
        if last:
            return
        if ready:
            print(answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
