"""A user's Git repository: its revisions and its commits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import RunError, UsageError
from kit.host.command import run


@dataclass(frozen=True)
class Commit:
    """``short``: the hash as Git abbreviates it. ``created``: the author's date, Unix time."""

    id: str
    short: str
    parents: tuple[str, ...]
    author: str
    created: float
    subject: str


def git(directory: str, *words: str | Path) -> str:
    """Return the output of a command on a user's repository. Git refuses others' repositories to root, unless it knows
    the user behind sudo. Raises RunError."""
    owner = {"SUDO_UID": os.environ["SUDO_UID"]} if "SUDO_UID" in os.environ else {}
    return run(["git", "-C", directory, *words], env=owner, what=f"git of {directory}")


def find_revision(directory: str, revision: str, option: str = "--source-rev") -> str:
    """Return the commit that a revision of a repository means. ``option``: what names it, for errors. Raises
    UsageError."""
    try:
        git(directory, "rev-parse", "--git-dir")
    except RunError as error:
        raise UsageError(f"{option}: {error.message}", "give --source a directory of a Git repository") from None
    try:
        return git(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
    except RunError:
        raise UsageError(
            f"{option} {revision}: no such revision in {directory}", "see git branch --all, git tag and git log"
        ) from None


def is_ancestor(directory: str, commit: str, of: str) -> bool:
    """Return whether one commit is part of the other's history."""
    try:
        return git(directory, "merge-base", commit, of).strip() == commit
    except RunError:  # they have no history in common
        return False


def first_parents(directory: str, after: str, until: str) -> tuple[Commit, ...]:
    """Return the commits that lead from one commit to another, oldest first, without the first; of a merge, the line of
    its first parent alone. Raises RunError."""
    return tuple(_log(directory, "--first-parent", "--reverse", f"{after}..{until}"))


def one_commit(directory: str, commit: str) -> Commit:
    """Return what is known of a commit. Raises RunError."""
    return next(_log(directory, "--max-count=1", commit))


def _log(directory: str, *words: str) -> Iterator[Commit]:
    form = "--format=%H%x00%h%x00%P%x00%an%x00%at%x00%s"
    for line in filter(None, git(directory, "log", "--no-show-signature", form, *words, "--").split("\n")):
        commit, short, parents, author, created, subject = line.split("\0", 5)
        yield Commit(commit, short, tuple(parents.split()), author, float(created), subject)
