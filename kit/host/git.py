"""A user's Git repository: its revisions and its commits, and the commit of a CI job.

Git works in a repository of the kit's own, which borrows the objects of the user's: the configuration of a repository
names programs that Git runs, and its attributes leave out files of a commit. Only the branches are read from the user's
repository itself, by git upload-pack, which obeys neither (git-upload-pack(1), SECURITY). Which commit a directory has
checked out is read from its files and no git runs: it would also refuse another user's repository."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kit.core.errors import RunError, UsageError
from kit.core.listing import listed
from kit.core.regular import open_regular
from kit.host.command import run
from kit.host.safe_fs import scratch

#: By these attributes in a commit, git archive leaves out files, replaces words in them, or runs a program for them.
_WHOLE = "* -export-ignore -export-subst -filter\n"
#: No configuration or other setting of the machine's or the user's changes what a commit contains.
_PLAIN = {
    "GIT_ATTR_NOSYSTEM": "1", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_REPLACE_OBJECTS": "1", "XDG_CONFIG_HOME": os.devnull,
}  # fmt: skip
#: Names that a note has at most.
_NAMED = 3


@dataclass(frozen=True)
class Repository:
    """The kit's own view of a user's repository."""

    directory: Path
    place: Path  # the user's directory
    top: Path  # of the user's repository

    def git(self, *words: str | Path, **env: str) -> str:
        """Return the output of a command at the user's directory. Raises RunError."""
        tree = {"GIT_WORK_TREE": str(self.top)} if (self.top / ".git").exists() else {}
        env = {**_PLAIN, "GIT_DIR": str(self.directory), **tree, **env}
        return run(["git", "-C", self.place, *words], env=env, what=f"git of {self.place}")

    def find_revision(self, revision: str, option: str) -> str:
        """Return the commit that a revision means. ``option``: what names it, for errors. Raises UsageError."""
        with suppress(RunError):
            return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
        raise UsageError(
            f"{option} {revision}: no such revision in {self.place}", "see git branch --all, git tag and git log"
        )


@contextmanager
def _viewed(directory: str) -> Iterator[Repository]:
    """Yield a view of the repository that contains a directory. Raises RunError."""
    place = Path(directory).resolve()
    top = next((path for path in (place, *place.parents) if is_repository(path)), None)
    if top is None:
        raise RunError(f"git of {directory} failed: not a git repository", "name a directory of a Git repository")
    with scratch(Path(tempfile.gettempdir())) as workspace:
        mirror = workspace / "view"
        words: list[str | Path] = ["git", "clone", "-q", "--mirror", "--shared", "--template=", "--", top, mirror]
        run(words, env={**sudo_user(), "GIT_ALLOW_PROTOCOL": "file"}, cwd=workspace, what=f"git of {directory}")
        yield Repository(mirror, place, top)


def sudo_user() -> dict[str, str]:
    """Return the variable that names the user behind sudo: otherwise Git refuses that user's repositories to root."""
    return {"SUDO_UID": os.environ["SUDO_UID"]} if "SUDO_UID" in os.environ else {}


def is_repository(path: Path) -> bool:
    """Return whether a directory is the top of a repository, with or without a work tree."""
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


@contextmanager
def opened(directory: str, option: str) -> Iterator[Repository]:
    """Yield the repository that contains the directory, for several questions: each view takes a clone. ``option``:
    what names its revisions, for errors. Raises UsageError if it is none."""
    with ExitStack() as stack:
        try:
            view = stack.enter_context(_viewed(directory))
        except RunError as error:
            raise UsageError(f"{option}: {error.message}", "give --source a directory of a Git repository") from None
        yield view


def write_archive(directory: str, commit: str, target: Path) -> None:
    """Write all files of a commit below the directory as a tarball, as Git stores them. Raises RunError."""
    with _viewed(directory) as view:
        (view.directory / "info").mkdir()
        (view.directory / "info/attributes").write_text(_WHOLE)
        view.git("archive", "--format=tar", "-o", target.absolute(), commit)


def left_out(directory: str, commit: str) -> str:
    """Return what a checkout of a commit has and ``write_archive`` has not, in words; '' if both are equal. Raises
    RunError."""
    with _viewed(directory) as view:
        entries = view.git("ls-tree", "-rz", commit).split("\0")
        modules = [entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")]
        empty = view.directory / "empty"
        empty.mkdir()
        empty_view = replace(view, place=empty, top=empty)
        here = {"GIT_WORK_TREE": str(empty)}  # attributes are then those of the commit
        empty_view.git("read-tree", commit, **here)
        below = str(view.place.relative_to(view.top))
        changed = empty_view.git("ls-files", "-z", "--", ":(exclude,attr:!filter)", below, **here).split("\0")
    parts = (("submodule", modules), ("what a filter (LFS) makes of", [name for name in changed if name]))
    return "; ".join(f"{what} {listed(names, _NAMED)}" for what, names in parts if names)


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
