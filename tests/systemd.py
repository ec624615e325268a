"""A real systemd, as the init process of namespaces of its own: with a /run, a control group and units of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.host.cgroup.cgroup import UNIFIED, Cgroup
from tests.waiting import wait_until

#: $1: its control group, $2: its units. It may neither see the machine's units nor set the kernel's parameters.
_BOOT = """
echo $$ >"$1"/cgroup.procs
exec unshare --cgroup --pid --mount --fork --kill-child --mount-proc sh -ec '
    mount --bind -o ro /proc/sys /proc/sys
    mount -t tmpfs kit-test /sys/fs/cgroup  # or the machine has cgroup2 there already, and it is busy
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mount -t tmpfs -o mode=755 kit-test /run
    mkdir -p /run/systemd/system /run/units
    cp "$1"/* /run/units
    exec env -i container=kit PATH="$PATH" SYSTEMD_UNIT_PATH=/run/systemd/system:/run/units \
        /lib/systemd/systemd --unit=kit-test.target --show-status=no --log-target=console
' sh "$2"
"""
_TARGET = "[Unit]\nDefaultDependencies=no\nWants={}\n"
_UNIT = "[Unit]\nDefaultDependencies=no\n"


@dataclass(frozen=True)
class Systemd:
    inside: tuple[str, ...]  # words before a command that runs there

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.inside, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)

    def state(self, unit: str) -> str:
        return self.run("systemctl", "is-active", unit).stdout.strip()


@contextmanager
def booted(units: Mapping[str, str], scratch: Path) -> Iterator[Systemd]:
    """Boot it with these units, all of which it starts. ``units``: sections by name, but for [Unit]."""
    for name, text in units.items():
        (scratch / name).write_text(f"{_UNIT}{text}")
    (scratch / "kit-test.target").write_text(_TARGET.format(" ".join(units)))
    group = Cgroup.named(f"kit-test-systemd-{os.getpid()}").create()
    with (scratch / "log").open("wb") as log:
        process = subprocess.Popen(["sh", "-ec", _BOOT, "sh", group.paths[UNIFIED], scratch], stdout=log, stderr=log)
    try:
        wait_until(lambda: _child(process) and _socket(process).exists(), process=process)
        systemd = Systemd(("nsenter", "--target", _child(process), "--mount", "--pid"))
        wait_until(lambda: systemd.state("kit-test.target") == "active", process=process)
        yield systemd
    finally:
        group.remove()
        process.wait()


def _child(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip()


def _socket(process: subprocess.Popen[bytes]) -> Path:
    """Where systemctl talks to it."""
    return Path(f"/proc/{_child(process)}/root/run/systemd/private")
