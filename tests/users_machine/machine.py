"""A user's machine under User-Mode Linux: boots in half a minute at nearly native speed, on one CPU."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.arms.image.mmdebstrap import together
from kit.extra.guest.uml import few_mappings
from kit.host.machine import most_mappings
from kit.host.waiting import wait_for
from tests.users_machine.root import USER

#: The guest's memory in MiB.
MEMORY = 4096
_BOOT_SECONDS = 240.0
_AGENT = "usr/local/lib/users-machine/agent.py"
#: As initramfs-tools mounts it. Without an initramfs, systemd would mount it so that programs may run there.
_INIT = """\
#!/bin/sh
mount -t proc -o nodev,noexec,nosuid proc /proc
mount -t tmpfs -o nodev,noexec,nosuid,size=10%,mode=0755 tmpfs /run
umount /proc
exec /sbin/init
"""
_UNIT = f"""\
[Unit]
Description=Commands of the tests
After=multi-user.target

[Service]
Type=simple
ExecStart=/usr/bin/python3 /{_AGENT} /dev/ttyS0
KillMode=process

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class Kernel:
    """``program``: User-Mode Linux, linked statically. ``modules``: the directory that has the release's name."""

    program: Path
    modules: Path


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return f"{self.out}{self.err}"


def write_files(kernel: Kernel, directory: Path) -> Path:
    """Write what this kind of machine adds to the root filesystem: modules, the first process, the agent."""
    units = directory / "etc/systemd/system"
    (units / "multi-user.target.wants").mkdir(parents=True, exist_ok=True)
    (units / "users-machine.service").write_text(_UNIT)
    (units / "multi-user.target.wants/users-machine.service").symlink_to("../users-machine.service")
    # A terminal of the machine: the tests' channel, so nobody logs in there.
    (units / "serial-getty@ttyS0.service").symlink_to("/dev/null")
    agent = directory / _AGENT
    agent.parent.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("agent.py"), agent)
    init = agent.with_name("init")
    init.write_text(_INIT)
    init.chmod(0o755)
    modules = directory / "usr/lib/modules" / kernel.modules.name
    shutil.copytree(kernel.modules, modules, symlinks=True, ignore=shutil.ignore_patterns("build", "source"))
    (directory / "etc/fstab").write_text("/dev/ubda / ext4 errors=remount-ro 0 1\n")
    return directory


class UsersMachine:
    """A running machine: ``run`` a script as the user, or as root; ``power_off`` as a failing power supply does."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket, console: Path) -> None:
        self._process = process
        self._channel = channel
        self._console = console
        self._unread = b""

    def run(self, script: str, user: str = USER, timeout: float = 300.0) -> Done:
        """Run a script in the user's login shell. Raises AssertionError if the machine died."""
        request = {"user": user, "script": script, "timeout": timeout}
        self._channel.sendall(json.dumps(request).encode() + b"\n")
        return Done(**self._answer(timeout + 60))

    def root(self, script: str, timeout: float = 300.0) -> Done:
        return self.run(script, "root", timeout)

    def wait_ready(self) -> None:
        self._answer(_BOOT_SECONDS)

    def power_off(self) -> None:
        if self._process.poll() is not None:
            return
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        stubs = [Path("/proc", child) for child in children.split()]
        self._process.kill()
        self._process.wait()
        # They hold the lock of its disk until they have ended, and the next boot wants it.
        wait_for(lambda: not any(stub.exists() for stub in stubs), lambda: "", 60)

    def _answer(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\n" not in self._unread:
            readable, _, _ = select.select([self._channel], [], [], 1)
            chunk = self._channel.recv(1 << 16) if readable else None
            dead = chunk == b"" or (chunk is None and self._process.poll() is not None)
            assert not dead and time.monotonic() < end, f"{'it died' if dead else 'no answer'}:\n{self.console()}"
            self._unread += chunk or b""
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def console(self) -> str:
        return self._console.read_text(errors="replace")[-3000:]


@contextmanager
def booted(
    kernel: Kernel,
    root: Path,
    changes: Path,
    disks: Sequence[Path] = (),
    words: Sequence[str] = (),
    before: Sequence[str] = (),
) -> Iterator[UsersMachine]:
    """Boot from the disk ``root``. ``changes``: a file that keeps what is written to it, for the next boot as well.
    ``disks``: others, read-only. ``words``: for the kernel. ``before``: the words before its command line."""
    assert not (warning := few_mappings(most_mappings())), warning
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryDirectory(prefix="um-", dir="/tmp") as directory:  # a short path: it has a socket
        console = Path(directory) / "console"
        with theirs, console.open("wb") as log:
            more = [f"ubd{number}r={path}" for number, path in enumerate(disks, 1)]
            command: list[str | Path] = [
                *before, *together(), "taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), kernel.program,
                f"mem={MEMORY}M", f"ubd0={changes},{root}", *more,
                "root=/dev/ubda", "rw", f"init=/{Path(_AGENT).with_name('init')}", "panic=-1", "con=null",
                "con0=null,fd:1", "ssl=null", f"ssl0=fd:{theirs.fileno()}", "seccomp=on", f"uml_dir={directory}",
                *words,
            ]  # fmt: skip
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[theirs.fileno()],
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": "/dev/shm"},
            )  # fmt: skip
        machine = UsersMachine(process, ours, console)
        try:
            machine.wait_ready()
            yield machine
        finally:
            machine.power_off()
            ours.close()
