"""Finds or fetches the inputs of a scenario that have a source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from kit.arms.image.image_file import check_archive
from kit.arms.image.mmdebstrap import extract_sources
from kit.core.errors import MachineError, RunError, UnavailableError, UsageError
from kit.core.regular import open_regular
from kit.host.command import run
from kit.host.git import is_repository, opened, sudo_user, write_archive
from kit.host.safe_fs import identity
from kit.model.scenario import Input
from kit.session.inputs.input_cache import InputCache, PreparedInput
from kit.session.inputs.repack import PACKED

#: Sources that give the same content on all machines.
_REMOTE = ("deb:", "git:")
#: Names of packages (Debian Policy, 5.6.1), perhaps with architecture and version as apt takes them, and of suites.
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(?::[a-z0-9-]+)?(?:=[^\s=]+)?")
_SUITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
#: URLs of other machines, and HOST:PATH (git-fetch(1), "GIT URLS").
_URL = re.compile(r"(?:https?|git|ssh|git\+ssh|ssh\+git|ftps?)://[^/\s]+\S*|[^/:\s]+:[^/\s]\S*|[^/:\s]+:/(?!/)\S*")
_FORMS = "give a directory, a tarball, a file, deb:PACKAGE#SUITE or git:URL#BRANCH"
#: A commit of a repository on this machine.
_AT_COMMIT = re.compile(r"git:(/.+)#([0-9a-f]{40}(?:[0-9a-f]{24})?)", re.DOTALL)


def located(name: str) -> str:
    """Return a file's absolute path, git:DIRECTORY#BRANCH with that of the directory, and other names (deb:, git:URL)
    unchanged."""
    if name.startswith("git:"):
        url, *branch = name.removeprefix("git:").split("#", 1)
        return "#".join([f"git:{located(url)}", *branch])
    file = bool(name) and not name.startswith("deb:") and (name[0] == "." or Path(name).exists())
    return str(Path(name).absolute()) if file else name


def check_source(item: Input, cache: Path, here: bool = True) -> None:
    """Check what can be known of an input's source without a network and without reading it whole. ``here``: this
    machine has what the session will read; else only forms are checked. Raises UsageError, MachineError."""
    source = located(item.source)
    if source.startswith("deb:"):
        package, suite = _package(source)
        if not _PACKAGE.fullmatch(package) or ("#" in source and not _SUITE.fullmatch(suite)):
            raise UsageError(f"source '{item.source}' is not deb:PACKAGE#SUITE", "use for example deb:bash#bookworm")
        if here:
            _package_version(source)
    elif source.startswith("git:"):
        _check_repository(item, source, cache, here)
    elif here:
        _check_path(Path(source), item.source)


def _check_repository(item: Input, source: str, cache: Path, here: bool) -> None:
    """Check a source in Git: the form of a URL, or directory and revision on this machine. Raises UsageError."""
    url, _, branch = source.removeprefix("git:").partition("#")
    if _URL.fullmatch(url) and not re.search(r"\s", branch):
        return
    if not url.startswith(("/", "file:///")) or re.search(r"\s", branch):
        fix = "use git:URL#BRANCH, or git:DIRECTORY#BRANCH with a directory that exists"
        raise UsageError(f"source '{item.source}' is not git:URL#BRANCH", fix)
    at = _AT_COMMIT.fullmatch(source)
    if not here or (at and _lookup(source, cache).has(item, _origin(item, source))):
        return
    if at:
        with opened(at[1], f"source '{item.source}'") as repository:
            repository.find_revision(at[2], "source")
        return
    path = Path(url)
    if url.startswith("/") and not path.is_file() and not is_repository(path):  # a file may be a bundle
        what = "not a Git repository" if path.is_dir() else "no such directory"
        raise UsageError(f"source '{item.source}': {what}", _clone_elsewhere(url, branch))
    _commit(f"{url}#{branch}")


def _check_path(path: Path, source: str) -> None:
    try:
        if path.is_dir():
            os.scandir(path).close()
            return
        with open_regular(path):
            pass
    except OSError as error:
        raise UsageError(f"source '{source}': {(error.strerror or str(error)).lower()}", _FORMS) from None
    if path.name.endswith(PACKED):
        check_archive(path, _FORMS)


def prepare_input(
    item: Input, cache: Path, tell: Callable[[str], None] = lambda text: None, timeout: float | None = None
) -> PreparedInput:
    """Bring one input with a source into the cache; ``timeout``: seconds that a download may take. Raises UsageError,
    MachineError or RunError."""

    source = located(item.source)

    def make(scratch: Path) -> Path:
        tell(f"preparing {source} (once)")
        return _fetch(source, scratch, timeout)

    return _lookup(source, cache, tell).get(item, _origin(item, source), make)


def _lookup(source: str, cache: Path, tell: Callable[[str], None] = lambda text: None) -> InputCache:
    return InputCache(cache, tell, shared=source.startswith(_REMOTE))


def _origin(item: Input, source: str) -> object:
    return (_identify(source), item.strip, item.exclude)


def _identify(source: str) -> str:
    """Return what changes whenever the input's content may change: a package's version, what identifies a tree."""
    if source.startswith("deb:"):
        return f"{source} {_package_version(source)}".rstrip()
    if _AT_COMMIT.fullmatch(source):
        return f"{source} whole"  # older kits left out files
    if source.startswith("git:"):
        return f"{source} {_commit(source.removeprefix('git:'))}"
    path = Path(source)
    if not path.is_dir() and not path.is_file():
        raise UsageError(f"unknown source '{source}'", _FORMS)
    try:
        return f"{path.resolve()} {identity(path)}"
    except OSError as error:
        raise UsageError(f"{error.filename or source}: {error.strerror}", "give a source that you may read") from None


def _commit(address: str) -> str:
    """Return the current commit of a repository's branch."""
    url, _, branch = address.partition("#")
    try:
        words = ["git", "ls-remote", "--", url, branch or "HEAD"]
        listed = run(words, timeout=60, env={**_NO_PROMPT, **sudo_user()}).split()
    except RunError as error:
        raise UnavailableError(f"{url} can't be reached: {error.message}", _clone_elsewhere(url, branch)) from None
    if not listed:
        what = f"branch or tag '{branch}'" if branch else "commit"
        raise UnavailableError(f"{url} has no {what}", f"use one of those that git ls-remote {url} lists")
    return listed[0]


_NO_PROMPT = {"GIT_TERMINAL_PROMPT": "0"}


def _clone_elsewhere(url: str, branch: str) -> str:
    """Return what a user can do if this machine has no access to the source."""
    if url.startswith("/"):
        return "give the directory of a Git repository, and a branch that it has: git:DIRECTORY#BRANCH"
    name = url.rstrip("/").rpartition("/")[2].removesuffix(".git")
    clone = f"git clone {f'-b {branch} ' if branch else ''}{url}"
    return f"clone it where there is a network: {clone}, then give --param {name}=DIRECTORY"


def _package(source: str) -> tuple[str, str]:
    """Return the package, and the suite that has it; '' for this machine's own."""
    package, _, suite = source.removeprefix("deb:").partition("#")
    return package, suite


def _package_version(source: str) -> str:
    """Return the version that apt would fetch; '' for a named suite's, which is fetched once: a machine of that suite
    then needs no fresh lists of apt, and gets its sources as all others do."""
    package, suite = _package(source)
    if suite:
        return ""
    try:
        description = run(["apt-cache", "show", "--no-all-versions", package])
    except RunError:
        raise MachineError(
            f"apt knows no package {package}",
            f"run apt-get update, name its suite (deb:{package}#bookworm), or give a tarball or directory as source",
        ) from None
    return next((line.split()[1] for line in description.splitlines() if line.startswith("Version:")), "unknown")


def _fetch(source: str, scratch: Path, timeout: float | None) -> Path:
    """Return a directory or tarball with the content of the source."""
    if at := _AT_COMMIT.fullmatch(source):
        write_archive(at[1], at[2], scratch / "commit.tar")
        return scratch / "commit.tar"
    if source.startswith("git:"):
        url, _, branch = source.removeprefix("git:").partition("#")
        words = ["git", "clone", "-q", "--depth", "1", *(["--branch", branch] if branch else []), "--", url, "clone"]
        run(words, cwd=scratch, env={**_NO_PROMPT, **sudo_user()}, timeout=timeout, what=f"clone of {url}")
        return scratch / "clone"
    if not source.startswith("deb:"):
        return Path(source).absolute()
    package, suite = _package(source)
    unpacked = scratch / "deb"
    if suite:
        extract_sources(package, suite, unpacked, timeout)
    else:
        words = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package]
        run(words, cwd=scratch, timeout=timeout, what=f"download of {package}")
        deb = next(scratch.glob("*.deb"))
        run(["dpkg-deb", "--extract", deb, unpacked], what=f"unpacking {deb.name}")
    tarballs = [path for path in unpacked.rglob("*") if path.name.endswith(PACKED) and path.is_file()]
    if len(tarballs) != 1:
        raise UsageError(f"package {package} holds {len(tarballs)} source tarballs, not one", "name another source")
    return tarballs[0]
