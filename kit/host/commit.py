"""The commit of a Git repository and that of a CI job. Files are read and no ``git`` runs: a repository's own
configuration could make it run programs, and it refuses another user's repository."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from kit.core.regular import open_regular

#: Variables in which CI systems give the commit, by precedence.
CI_VARIABLES = (
    "GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "CIRCLE_SHA1", "BUILD_SOURCEVERSION", "BITBUCKET_COMMIT",
    "DRONE_COMMIT_SHA", "TRAVIS_COMMIT", "APPVEYOR_REPO_COMMIT", "CODEBUILD_RESOLVED_SOURCE_VERSION", "GIT_COMMIT",
)  # fmt: skip
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH = re.compile(r"ref: (refs/[^\0\n]+)")
#: Most bytes of a file that lists branches.
_MOST = 32 << 20


def ci_commit(environ: Mapping[str, str] = os.environ) -> str:
    """Return the commit that the CI job builds; '' outside of CI."""
    values = (environ.get(name, "").strip().lower() for name in CI_VARIABLES)
    return next((text for text in values if _COMMIT.fullmatch(text)), "")


def find_commit(directory: Path | None) -> str:
    """Return the checked-out commit of the repository that contains the directory; '' without one."""
    try:
        if directory is None or not directory.is_dir():
            return ""
        place = directory.absolute()
    except OSError:  # it may not be searched, or is the current one and was deleted
        return ""
    for parent in (place, *place.parents):
        try:
            git = _git_directory(parent / ".git")
            return _checked_out(git) if git else ""
        except OSError:
            continue
    return ""


def _git_directory(path: Path) -> Path | None:
    """Return the directory of a repository: that of a work tree or a submodule is named in a file. Raises OSError if it
    is missing."""
    if path.is_dir():
        return path
    match = re.fullmatch(r"gitdir: ([^\0\n]+)", _read(path))
    return path.parent / match[1] if match else None


def _checked_out(git: Path) -> str:
    head = _read(git / "HEAD")
    branch = _BRANCH.fullmatch(head)
    if not branch or ".." in branch[1].split("/"):
        return head if _COMMIT.fullmatch(head) else ""
    shared = git / _read(git / "commondir") if (git / "commondir").is_file() else git
    for directory in (git, shared):
        if (directory / branch[1]).is_file():
            text = _read(directory / branch[1])
            return text if _COMMIT.fullmatch(text) else ""
    packed = _read(shared / "packed-refs") if (shared / "packed-refs").is_file() else ""
    lines = (line.split(" ", 1) for line in packed.splitlines())
    return next((line[0] for line in lines if line[1:] == [branch[1]] and _COMMIT.fullmatch(line[0])), "")


def _read(path: Path) -> str:
    """Return the text of a small file without its last line break. Raises OSError."""
    with open_regular(path) as file:
        return file.read(_MOST).decode(errors="replace").rstrip("\n")
