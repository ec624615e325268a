"""Finds or fetches the inputs of a scenario that have a source."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from kit.core.errors import MachineError, RunError, UnavailableError, UsageError
from kit.host.command import run
from kit.host.git import sudo_user, write_archive
from kit.host.safe_fs import identity
from kit.image.debian_package import extract_sources
from kit.model.scenario import Input
from kit.session.inputs.input_cache import InputCache, PreparedInput
from kit.session.inputs.repack import PACKED

#: Sources that give the same content on all machines.
_REMOTE = ("deb:", "git:")
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


def prepare_input(
    item: Input, cache: Path, tell: Callable[[str], None] = lambda text: None, timeout: float | None = None
) -> PreparedInput:
    """Bring one input with a source into the cache; ``timeout``: seconds that a download may take. Raises UsageError,
    MachineError or RunError."""

    source = located(item.source)

    def make(scratch: Path) -> Path:
        tell(f"preparing {source} (once)")
        return _fetch(source, scratch, timeout)

    lookup = InputCache(cache, tell, shared=source.startswith(_REMOTE))
    return lookup.get(item, (_identify(source), item.strip, item.exclude), make)


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
        hint = "give a directory, a tarball, a file, deb:PACKAGE#SUITE or git:URL#BRANCH"
        raise UsageError(f"unknown source '{source}'", hint)
    try:
        return f"{path.resolve()} {identity(path)}"
    except OSError as error:
        raise UsageError(f"{error.filename or source}: {error.strerror}", "give a source that you may read") from None


def _commit(address: str) -> str:
    """Return the current commit of a repository's branch."""
    url, _, branch = address.partition("#")
    try:
        words = ["git", "ls-remote", "--exit-code", "--", url, branch or "HEAD"]
        return run(words, timeout=60, env={**_NO_PROMPT, **sudo_user()}).split()[0]
    except RunError as error:
        raise UnavailableError(f"{url} can't be reached: {error.message}", _clone_elsewhere(url, branch)) from None


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
        shown = run(["apt-cache", "show", "--no-all-versions", package])
    except RunError:
        raise MachineError(
            f"apt knows no package {package}",
            f"run apt-get update, name its suite (deb:{package}#bookworm), or give a tarball or directory as source",
        ) from None
    return next((line.split()[1] for line in shown.splitlines() if line.startswith("Version:")), "unknown")


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
