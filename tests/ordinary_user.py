"""A block that runs as an ordinary user, where the tests are root's; and a user who can log in, made up for a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import kit

NOBODY = 65534
USER = 4321
#: Of the users that may be mapped for it.
FIRST, COUNT = 200_000, 65_536
#: $1 the user's directory; then the command. Users and their ranges are seen by what it starts alone. As on Debian, a
#: user has a group, umask 002 and a home of mode 700, and the directory of sockets is mounted noexec.
_ENTER = f"""
for file in passwd group subuid subgid; do mount --bind "$1/$file" /etc/$file; done
mount -t tmpfs -o mode=700,noexec,nosuid,nodev kit "$1/run"; chown {USER}:{USER} "$1/run"
cd "$1/home"; shift; umask 002
exec setpriv --reuid {USER} --regid {USER} --init-groups -- "$@"
"""


@contextmanager
def ordinary_user() -> Iterator[None]:
    """The real user too: os.access and skopeo ask for that one."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@dataclass(frozen=True)
class Account:
    """A user with a home, and with ranges of users and groups to map."""

    directory: Path
    python: Path

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "PYTHONPATH": ":".join(map(str, _libraries())),
            "XDG_RUNTIME_DIR": str(self.directory / "run"),  # Podman wants its run directory to have a short name
        }

    def give(self, *paths: Path) -> None:
        """Make the user the owner of files below the home."""
        subprocess.run(["chown", "-R", "-h", f"{USER}:{USER}", *paths], check=True)

    def run(self, *words: str | Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the user's home."""
        private = ["unshare", "--mount", "--propagation", "private", "--"]
        return subprocess.run(
            [*private, "sh", "-euc", _ENTER, "sh", self.directory, *words],
            env=self.environment | dict(env or {}), capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip


@contextmanager
def made_up_user() -> Iterator[Account]:
    """As root: make up a user in files of the test's own. Skip the test where no user may read Python or the kit."""
    python = Path(sys.executable).resolve()
    if not _reachable(python.parent):
        python = Path("/usr/bin/python3").resolve()
    if python.name != f"python3.{sys.version_info[1]}" or not all(map(_reachable, _libraries())):
        pytest.skip("needs a Python and packages that an ordinary user may read")
    if not shutil.which("newuidmap"):
        pytest.skip("needs newuidmap (package uidmap)")
    directory = Path(tempfile.mkdtemp(prefix="k-", dir="/tmp"))
    directory.chmod(0o755)
    absent = [path for path in (Path("/etc/subuid"), Path("/etc/subgid")) if not path.exists()]
    for path in absent:
        path.touch()  # to have something to mount over
    try:
        account = Account(directory, python)
        for name, line in (
            ("passwd", f"kituser:x:{USER}:{USER}::{account.home}:/bin/sh"),
            ("group", f"kituser:x:{USER}:"),
        ):
            (directory / name).write_text(f"{Path('/etc', name).read_text()}{line}\n")
        for name in ("subuid", "subgid"):
            (directory / name).write_text(f"kituser:{FIRST}:{COUNT}\n")
        account.home.mkdir(0o700)
        (directory / "run").mkdir()
        account.give(account.home)
        yield account
    finally:
        shutil.rmtree(directory)
        for path in absent:
            path.unlink()


def _libraries() -> list[Path]:
    return [Path(kit.__file__).parent.parent, *(Path(item) for item in sys.path if "site-packages" in item)]


def _reachable(path: Path) -> bool:
    """Whether any user may go there."""
    return all(part.stat().st_mode & 0o005 == 0o005 for part in (path, *path.parents) if part.is_dir())
