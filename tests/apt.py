"""A small Debian of a test's own: real apt and dpkg, their state in a directory, and an archive of empty packages."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

CONFIGURATION = """\
Dir "{root}";
Dir::State::status "{root}/var/lib/dpkg/status";
DPkg::Options {{ "--root={root}"; "--force-not-root"; }};
DPkg::Use-Pty "false";
APT::Sandbox::User "";
Acquire::Languages "none";
"""
#: What dpkg and apt call. They are no tools of the kit.
BASE = (
    "apt-cache", "apt-get", "cat", "cut", "diff", "dpkg", "dpkg-deb", "dpkg-split", "env", "grep", "id", "ldconfig",
    "mktemp", "python3", "rm",
    "sed", "sh", "sleep", "start-stop-daemon", "tar", "tr",
)  # fmt: skip


@dataclass(frozen=True)
class Debian:
    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return one without any tool of the kit; apt and dpkg work below ``root``."""
        return {"PATH": str(self.root / "bin"), "APT_CONFIG": str(self.root / "apt.conf"), "HOME": str(self.root)}

    def offer(self, *packages: str) -> None:
        """Write the archive anew, with these packages alone."""
        archive = self.root / "archive"
        shutil.rmtree(archive, ignore_errors=True)
        archive.mkdir()
        entries = []
        for name, depends in (package.partition(" needs ")[::2] for package in packages):
            tree = self.root / "packing" / name
            (tree / "DEBIAN").mkdir(parents=True, exist_ok=True)
            control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@example.org>\n"
            control += (f"Depends: {depends}\n" if depends else "") + "Description: empty\n"
            (tree / "DEBIAN/control").write_text(control)
            deb = archive / f"{name}.deb"
            subprocess.run(["dpkg-deb", "-Znone", "--build", tree, deb], check=True, capture_output=True)
            content = deb.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            entries.append(f"{control}Filename: ./{deb.name}\nSize: {len(content)}\nSHA256: {digest}\n")
        (archive / "Packages").write_text("\n".join(entries))

    def for_kit(self) -> str:
        """Return a PATH on which the kit finds this apt: its commands have no APT_CONFIG."""
        (self.root / "kit").mkdir()
        program = self.root / "kit/apt-cache"
        program.write_text(f'#!/bin/sh\nAPT_CONFIG={self.root}/apt.conf exec {self.root}/bin/apt-cache "$@"\n')
        program.chmod(0o755)
        return f"{program.parent}:/usr/bin:/bin"

    def update(self) -> None:
        subprocess.run(["apt-get", "-q", "update"], env=self.environment, check=True, capture_output=True)

    @property
    def installed(self) -> set[str]:
        status = (self.root / "var/lib/dpkg/status").read_text()
        return {line.split()[1] for line in status.splitlines() if line.startswith("Package:")}

    def run(self, argv: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, check=False)

    def start(self, argv: Sequence[str | Path]) -> subprocess.Popen[str]:
        both = subprocess.STDOUT
        return subprocess.Popen(argv, env=self.environment, stdout=subprocess.PIPE, stderr=both, text=True)


def make_debian(root: Path, *packages: str) -> Debian:
    """Skips where the machine has no apt."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    if shutil.which("apt-get", path=path) is None:
        pytest.skip("needs apt-get")
    (root / "bin").mkdir()
    for tool in BASE:
        if program := shutil.which(tool, path=path):
            (root / "bin" / tool).symlink_to(program)
    (root / "bin/sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (root / "bin/sudo").chmod(0o755)
    for name in (
        "var/lib/dpkg",
        "var/lib/apt/lists/partial",
        "var/cache/apt/archives/partial",
        "var/log/apt",
        "etc/apt/apt.conf.d",
        "etc/apt/preferences.d",
    ):
        (root / name).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{root}/archive ./\n")
    (root / "apt.conf").write_text(CONFIGURATION.format(root=root))
    debian = Debian(root)
    debian.offer("apt", *packages)
    return debian
