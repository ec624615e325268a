"""Run unit tests with another version of Python, which need not be installed.

    python tests/other_python.py python3.14 DIRECTORY [ARGUMENT OF PYTEST]...

The interpreter is this machine's, if it has one, else Debian's from the suite that has this version, else one that uv
downloads. Where there is none, the last line says so, and nothing is tested. It and the packages go into DIRECTORY.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The suite of Debian that has an interpreter, which mmdebstrap unpacks; Debian has had no other version.
SUITES = {"python3.11": "bookworm", "python3.13": "trixie", "python3.14": "sid"}


def said(words: Sequence[str | Path], **env: str) -> str:
    """Return the output of a command, '' if it fails."""
    done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def installed(name: str) -> str:
    """Return this machine's interpreter. pyenv puts one into PATH only where a user has chosen its version."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    places = [*map(str, pyenv.glob(f"{name.removeprefix('python')}.*/bin")), os.environ["PATH"]]
    words = ["uv", "python", "find", "--system", "--no-project", "--no-python-downloads", name]
    return said(words, PATH=os.pathsep.join(places))


def of_debian(name: str, directory: Path) -> str:
    """Return Debian's interpreter, unpacked. It uses the C library of its suite; all else that it meets is of this
    machine."""
    suite = SUITES.get(name)
    if not suite or os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        return ""
    root = directory / "debian"
    if not root.exists():
        directory.mkdir(parents=True, exist_ok=True)
        words = ["mmdebstrap", "--quiet", "--variant=extract", "--format=directory", f"--include={name},libstdc++6"]
        # As the kit does for suites that change by the day.
        words += ["--aptopt=Acquire::Check-Valid-Until false", suite, str(root)]
        if subprocess.run(words, check=False).returncode != 0:
            return ""
    program = root / "usr/bin" / name
    loader = next(root.glob("usr/lib/*-linux-gnu/ld-linux*.so.*"))
    words = ["patchelf", "--set-interpreter", str(loader), "--force-rpath", "--set-rpath", str(loader.parent)]
    subprocess.run([*words, str(program)], check=True)
    return str(program)


def downloaded(name: str, directory: Path) -> str:
    """Return an interpreter of uv's own, where they can be downloaded."""
    place = str(directory / "uv")
    if subprocess.run(["uv", "python", "install", "--no-bin", "--install-dir", place, name], check=False).returncode:
        return ""
    return said(["uv", "python", "find", "--no-project", "--managed-python", name], UV_PYTHON_INSTALL_DIR=place)


def main(name: str, directory: Path, *arguments: str) -> int:
    """Return the exit code of pytest, 0 without an interpreter."""
    # Machine tests that measure wait for unit tests, from now on (tests/builder.py).
    fcntl.flock(os.open(ROOT / "tests", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), fcntl.LOCK_SH)
    python = installed(name) or of_debian(name, directory) or downloaded(name, directory)
    if not python:
        print(f"NOT TESTED with {name}: neither this machine nor Debian has it, and uv cannot download it")
        return 0
    print(f"testing with {python}", flush=True)
    place = directory / "environment"
    subprocess.run(["uv", "venv", "--quiet", "--clear", "--python", python, place], check=True)
    words = ["uv", "pip", "install", "--quiet", "--python", place, "--constraint", ".ci/constraints.txt"]
    subprocess.run([*map(str, words), "-r", "pyproject.toml", "--extra", "all", "hypothesis"], cwd=ROOT, check=True)
    return subprocess.run([place / "bin/python", "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
