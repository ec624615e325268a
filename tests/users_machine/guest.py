"""A user's machine for the tests: its Docker has a container, a volume and a network, and the kit is installed."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from kit.core.paths import APP
from tests import machine_state
from tests.users_machine.kernel import make_kernel
from tests.users_machine.machine import Done, UsersMachine, booted, write_files
from tests.users_machine.media import LABEL, make_media
from tests.users_machine.root import make_root, say

MEDIA = "/media/kit"
#: pip finds what it would download on the disk.
WHEELS = f"export PIP_NO_INDEX=1 PIP_FIND_LINKS={MEDIA}/wheels PIP_NO_COMPILE=1"
#: The words with which README starts the kit as root.
SUDO = 'sudo env PATH="$PATH" kit'
#: A session that takes seconds: a small image, and a command that reads and writes.
TINY = f"--image {MEDIA}/tiny.tar --no-rerun"
COPY = "-- sh -c 'cp -r /bin copy && rm -r copy'"
#: Mounted so on hardened machines.
NOEXEC = ("/tmp", "/var/tmp", "/dev/shm")
#: Parts of the state that a boot leaves as they are: a session that was cut off has changed them before it.
_ON_DISK = tuple(f"file in {directory}" for directory in ("/etc", "/opt", "/var/lib", "/var/tmp"))
_OWN_DOCKER = f"""
docker import {MEDIA}/tiny.tar users:1
docker network create usersnet
docker volume create usersvol
docker run --detach --name web --restart always --network usersnet -v usersvol:/srv -p 8080:80 \\
    users:1 httpd -f -p 80 -h /srv
docker exec web sh -c 'echo hello >/srv/index.html'
"""
_PAGE = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080/', timeout=20).read().decode())"
#: A module that the kernel loads on demand stays, with its settings and devices: sessions name each. The daemon of the
#: user removes a namespace's file a minute after its container.
_EXPECTED = re.compile(
    r"\+ module: |\+ setting: (fs/xfs|fs/nfs|dev/raid)/|[+-] file in /dev: /dev/(loop\d|btrfs-control|mapper)"
    r"|[+-] file in /run: /run/docker/netns/"
)


class Guest:
    """``directory``: keeps what the machine writes."""

    def __init__(self, release: str, cache: Path, directory: Path, noexec: bool = False) -> None:
        kernel = make_kernel(cache, say)
        self.release = release
        self.noexec = noexec
        self._media = make_media(release, cache, directory / "media", say)
        self._changes = directory / "disk.cow"
        files = directory / "files"
        files.mkdir()
        root = make_root(release, cache, files=write_files(kernel, files))
        self._boot: Callable[[], UsersMachine] = lambda: self._stack.enter_context(
            booted(kernel, root, self._changes, [self._media])
        )
        self._stack = ExitStack()
        self._machine = self._boot()
        self._mount()
        self.must("root", "loginctl enable-linger debian")  # or its session comes and goes
        self.must("root", _OWN_DOCKER)
        self.must("debian", f'{WHEELS}; pipx install "$(echo {MEDIA}/wheels/storage_driver_test_kit-*.whl)[all]"')
        self.must("root", f"mkdir -p ~/.cache; cp -r {MEDIA}/cache ~/.cache/{APP}")
        self._before = self.state()

    def run(self, script: str, user: str = "debian", timeout: float = 600.0) -> Done:
        """Run a script in the user's login shell."""
        begin = time.monotonic()
        done = self._machine.run(script, user, timeout)
        say(f"{self.release}, {user}, {time.monotonic() - begin:.0f} s: {script.strip()}\n{done.text}")
        return done

    def must(self, user: str, script: str, timeout: float = 600.0) -> str:
        """Return what a script prints that must succeed."""
        done = self.run(f"set -e; {script}", user, timeout)
        assert done.code == 0, done.text
        return done.text

    def install(self, script: str) -> str:
        """Run root's script that installs packages of Debian: the machine has them from now on. Return the output."""
        self.must("root", f"cp -r {MEDIA}/apt/lists /var/lib/apt; cp -r {MEDIA}/apt/archives /var/cache/apt")
        printed = self.must("root", f"yes | {{ {script}\n}}")
        self._before = self.state()
        return printed

    def state(self) -> dict[str, list[str]]:
        printed = self._machine.root(f"python3 {MEDIA}/machine_state.py").out
        lines: dict[str, list[str]] = json.loads(printed)
        return lines

    def changes(self) -> list[str]:
        """Return what differs from the state in which the machine booted, without modules that were loaded."""
        changed = machine_state.difference(self._before, self.state())
        return [line for line in changed if not _EXPECTED.match(line)]

    def page(self) -> str:
        """Return what the user's container serves on its published port."""
        return self.must("root", f'python3 -c "{_PAGE}"').strip()

    def cut_power(self) -> None:
        """Power off and boot again."""
        self._stack.close()
        self._machine = self._boot()
        self._mount()
        self.must("root", f'until python3 -c "{_PAGE}"; do sleep 1; done', 120)
        self._before = self.state() | {part: self._before[part] for part in _ON_DISK}

    def close(self) -> None:
        self._stack.close()

    def _mount(self) -> None:
        self.must("root", f"mkdir -p {MEDIA}; mount -o ro -L {LABEL} {MEDIA}")
        for directory in NOEXEC if self.noexec else ():
            self.must(
                "root",
                f"mountpoint -q {directory} || mount --bind {directory} {directory}; "
                f"mount -o remount,bind,noexec,nosuid,nodev {directory}",
            )
