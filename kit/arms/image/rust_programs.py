"""Programs that a recipe builds from Rust crates, on this machine: where Debian has no package of them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import MachineError, RunError
from kit.host.command import CommandError, install_fix, run, which
from kit.host.safe_fs import scratch

#: What builds crates, some of which have parts in C; and the Debian package of each.
_TOOLS = {"cargo": "cargo", "cc": "gcc", "cmake": "cmake", "make": "make", "perl": "perl"}
#: Older ones can't read the registry's index without Git.
_OLDEST = (1, 68)
_NEWER = f"install Rust {'.'.join(map(str, _OLDEST))} or later: Debian 13 has it, as cargo, and so has rustup"
#: rustup obeys the rust-toolchain.toml, and cargo the .cargo/config.toml, of its directory and of all above: only those
#: of this one are surely root's.
_TOP = Path("/")
#: These say where crates and the user's Rust are.
_THEIRS = ("CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True)
class RustPrograms:
    """Programs of Rust crates."""

    packages: Sequence[str]  # as CRATE/PROGRAM@VERSION; a crate's own lock file names the versions of the others

    def build(self, directory: Path, together: Sequence[str | Path]) -> None:
        """Write the programs into a directory; everything else is removed, except the sources that cargo keeps in the
        user's home. ``together``: begins a command line that ends with the kit. Raises MachineError without a Rust that
        can, RunError if a build fails."""
        directory.mkdir(exist_ok=True)
        with scratch(directory.parent) as workspace:
            inherited = {name: os.environ[name] for name in _THEIRS if name in os.environ}
            environment = {
                **inherited,
                "CARGO_PROFILE_RELEASE_STRIP": "symbols",
                "CARGO_TARGET_DIR": str(workspace / "target"),
            }
            _check(environment)
            for package in self.packages:
                crate, _, program_version = package.partition("/")
                program, _, version = program_version.partition("@")
                words = ["cargo", "install", "--locked", "--no-track", "--root", str(workspace), "--bin", program]
                try:
                    run([*together, *words, f"{crate}@{version}"], env=environment, cwd=_TOP)
                except CommandError as error:
                    raise RunError(f"building {package} failed: {explain(error.said)}", _fix(error.said)) from None
                (workspace / "bin" / program).rename(directory / program)


def missing_tools() -> list[str]:
    """Return the missing ones of the tools that build crates."""
    return [tool for tool in _TOOLS if not which(tool)]


def _check(environment: dict[str, str]) -> None:
    missing = missing_tools()
    if missing:
        packages = " ".join(_TOOLS.values())
        raise MachineError(
            f"building a program in Rust needs {', '.join(missing)}",
            f"install them (Debian 13 or later), or take cargo from rustup: {install_fix(packages)}",
        )
    version_line = run(["cargo", "--version"], env=environment, cwd=_TOP)
    match = re.search(r"(\d+)\.(\d+)", version_line)
    if not match or tuple(map(int, match.groups())) < _OLDEST:
        raise MachineError(f"{version_line.strip()} is too old for programs in Rust", _NEWER)


def explain(output: str) -> str:
    """Return why cargo failed, from its output: the first errors, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error")]
    return "; ".join(errors[:2]) or (lines or ["cargo does not say why"])[-1]


def _fix(output: str) -> str:
    lost = re.search(r"resolve host|timed out|download|connect|registry index|\[\d+\] .*(?:transfer|host)", output)
    return "check that cargo reaches its registry" if lost else "see the output in session.log"
