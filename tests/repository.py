"""A Git repository with history, for tests of its revisions."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(directory: Path, *words: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", "-C", str(directory), *who, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def make_repository(directory: Path) -> Path:
    """Make one with two commits on main: ``number`` is 1 in the first, tagged v1, and 2 in the second. The work tree
    has changes that no commit has."""
    directory.mkdir()
    git(directory, "init", "-q", "-b", "main")
    for number in ("1", "2"):
        (directory / "number").write_text(number)
        git(directory, "add", "number")
        git(directory, "commit", "-q", "-m", number)
    git(directory, "tag", "v1", "HEAD~1")
    (directory / "number").write_text("not committed")
    (directory / "untracked").touch()
    return directory
