"""A Debian machine under User-Mode Linux that reaches the mirrors: another kernel than the distribution's, all else as
it is there, and an hour where the emulation takes a day."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from qemu_guest import Shell, ssh_words

from kit.host.waiting import wait_for
from tests.users_machine.machine import Kernel
from tests.users_machine.machine import booted as booted_uml

_ADDRESS = "10.0.2.15"  # what slirp4netns gives to the first machine that asks
_HERE = "10.0.2.100"
_TAP = "kit-tap"
#: A network of its own, in which the guest and slirp4netns are on one bridge. Prints a line, then waits.
_NETWORK = f"""
ip link set lo up && ip link add bridge type bridge && ip addr add {_HERE}/24 dev bridge && ip link set bridge up &&
ip tuntap add {_TAP} mode tap && ip link set {_TAP} master bridge up && echo ready && exec sleep infinity
"""


@contextmanager
def booted(kernel: Kernel, disk: Path, key: Path, directory: Path) -> Iterator[Shell]:
    """Boot a disk with a network until its last service has started. The disk stays as it is: ``directory`` gets all
    writes. Needs slirp4netns."""
    with ExitStack() as stack:
        enter = stack.enter_context(_network(directory))
        words = [f"vec0:transport=tap,ifname={_TAP},depth=64"]
        stack.enter_context(booted_uml(kernel, disk, directory / "disk.cow", words=words, before=enter))
        guest = Shell([*enter, *ssh_words(key, _ADDRESS, 22)])
        guest.wait_for_boot(lambda: True)  # its first answer came by another way: it is alive
        yield guest


@contextmanager
def _network(directory: Path) -> Iterator[Sequence[str]]:
    """Make a network and yield the words that enter it."""
    with ExitStack() as stack:
        holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", _NETWORK],
                                  stdout=subprocess.PIPE)  # fmt: skip
        stack.enter_context(holder)
        stack.callback(holder.kill)
        assert holder.stdout and holder.stdout.readline() == b"ready\n"
        enter = ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
        with (directory / "slirp4netns.log").open("wb") as log:
            words = ["setpriv", "--pdeathsig", "KILL", "slirp4netns", str(holder.pid), "tap0"]
            slirp = subprocess.Popen(words, stdout=log, stderr=log)
        stack.enter_context(slirp)
        stack.callback(slirp.kill)
        join = [*enter, "ip", "link", "set", "tap0", "master", "bridge", "up"]
        wait_for(lambda: subprocess.run(join, stderr=subprocess.DEVNULL).returncode == 0, lambda: "", 30)
        yield enter
