"""A Debian machine under QEMU's emulation, with the distribution's own kernel and initramfs. Commands go over SSH."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kit.host.command import run
from tests.users_machine.root import USER

#: Minutes until a guest answers: the emulation is 25 times slower than the machine, and other programs use it too.
_BOOT_MINUTES = 30.0
_RESOLVER = "10.0.2.3"  # QEMU's own, which asks this machine's
_NETWORK = "[Match]\nName=en* vec*\n[Network]\nDHCP=yes\n"


class Shell:
    """Runs scripts on a machine. ``words``: the command line that takes a script as its last word."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    def run(self, script: str, output: IO[bytes] | int, stdin: IO[bytes] | int = subprocess.DEVNULL) -> int:
        """Return the exit code of a script. ``output``: where it writes, stderr too."""
        return subprocess.run([*self._words, script], stdin=stdin, stdout=output, stderr=subprocess.STDOUT).returncode

    def read(self, script: str) -> str:
        """Return what a script prints. Raises CalledProcessError if it fails."""
        return subprocess.run(
            [*self._words, script], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        ).stdout

    def wait_for_boot(self, runs: Callable[[], bool]) -> None:
        """Wait until the machine answers and its last service has started. ``runs``: whether it is not dead."""
        end = time.monotonic() + 60 * _BOOT_MINUTES
        while self.run("true", subprocess.DEVNULL) != 0:
            assert runs() and time.monotonic() < end, "the guest does not answer: see console.log"
            time.sleep(5)
        self.run("systemctl is-system-running --wait", subprocess.DEVNULL)


def write_network_files(directory: Path, key: Path) -> None:
    """Write what a root filesystem needs to be such a machine: a network, a disk, and the public part of ``key``."""
    systemd = directory / "etc/systemd"
    wants = systemd / "system/multi-user.target.wants"
    for path in (systemd / "network", wants, directory / "etc/ssh/sshd_config.d"):
        path.mkdir(parents=True)
    (systemd / "network/20-wired.network").write_text(_NETWORK)
    (wants / "systemd-networkd.service").symlink_to("/usr/lib/systemd/system/systemd-networkd.service")
    (directory / "etc/resolv.conf").write_text(f"nameserver {_RESOLVER}\n")
    (directory / "etc/fstab").write_text("/dev/vda / ext4 errors=remount-ro 0 1\n")
    (directory / "etc/ssh/users-machine-key").write_text(key.with_suffix(".pub").read_text())
    (directory / "etc/ssh/sshd_config.d/users-machine.conf").write_text(
        "AuthorizedKeysFile /etc/ssh/users-machine-key\n"
    )


def make_key(directory: Path) -> Path:
    """Return a private key, made once: the cached disks contain its public part."""
    key = directory / "key"
    if not key.exists():
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key])
    return key


@contextmanager
def booted(disk: Path, key: Path, directory: Path, memory: str) -> Iterator[Shell]:
    """Boot a disk and wait until its last service has started. The disk stays as it is: ``directory`` gets all writes.

    The distribution's kernel and initramfs are read from the disk: there is no boot loader."""
    kernel, initramfs = (_boot_file(disk, name, directory) for name in ("vmlinuz", "initrd.img"))
    written = directory / "written.qcow2"
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", disk.absolute(), written])
    port = _free_port()
    words: list[str | Path] = [
        "setpriv", "--pdeathsig", "KILL", "--", "nice", "-n", "10", "qemu-system-x86_64",
        "-machine", "q35", "-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max", "-smp", "2", "-m", memory,
        "-display", "none", "-monitor", "none", "-no-reboot", "-serial", f"file:{directory / 'console.log'}",
        "-kernel", kernel, "-initrd", initramfs, "-append", "root=/dev/vda rw console=ttyS0 quiet",
        "-drive", f"file={written},format=qcow2,if=virtio,cache=unsafe,discard=unmap", "-device", "virtio-rng-pci",
        "-nic", f"user,model=virtio-net-pci,hostfwd=tcp:127.0.0.1:{port}-:22",
    ]  # fmt: skip
    with (directory / "qemu.log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        guest = Shell(ssh_words(key, "127.0.0.1", port))
        try:
            guest.wait_for_boot(lambda: process.poll() is None)
            yield guest
        finally:
            process.kill()


def ssh_words(key: Path, address: str, port: int) -> list[str]:
    """Return the command line that runs a script in a login of the ordinary user."""
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=60", "LogLevel=ERROR")
    return ["ssh", "-i", str(key), "-p", str(port), *(f"-o{option}" for option in options), f"{USER}@{address}"]


def _boot_file(disk: Path, name: str, directory: Path) -> Path:
    """Return a copy of the kernel or initramfs of a disk: /vmlinuz and /initrd.img are links into /boot."""
    listing = run(["debugfs", "-R", "ls -p /boot", disk])
    (file,) = re.findall(rf"/({re.escape(name)}-[^/]+)/", listing)
    target = directory / name
    run(["debugfs", "-R", f"dump /boot/{file} {target}", disk])
    return target


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
