"""Inputs of a scenario: found, fetched, filtered once, and cached as one tarball each."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from kit.core.codec import Whole, decode_json, encode_json
from kit.core.errors import MachineError, RunError, UnavailableError, UsageError
from kit.host.beneath import remove, scratch, unpack
from kit.host.command import reading, run, writing
from kit.host.peers import Peer, from_peers
from kit.model.scenario import Input

#: What is the same on all machines.
_REMOTE = ("deb:", "git:")
_PACKED = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".tar.bz2")


@dataclass(frozen=True)
class PreparedInput:
    """``path`` is a .tar where it goes into the tree, a .tar.zst where the scenario unpacks it itself, and a directory
    where it reads it as it is."""

    name: str
    into: str
    path: Path
    digest: str


def prepare_input(
    item: Input, cache: Path, tell: Callable[[str], None] = lambda text: None, timeout: float | None = None
) -> PreparedInput:
    """Bring one input with a source into the cache; ``timeout``: seconds that a download may take. Raises UsageError,
    MachineError or RunError."""

    def make(scratch: Path) -> Path:
        tell(f"preparing {item.source} (once)")
        return _fetch(item.source, scratch, timeout)

    lookup = InputCache(cache, tell, shared=item.source.startswith(_REMOTE))
    return lookup.get(item, (_identify(item.source), item.strip, item.exclude), make)


_SUFFIX = {"tree": ".tar", "inputs": ".tar.zst", "directory": ""}


@dataclass(frozen=True)
class _Facts:
    """What stands beside an input in the cache. ``size``: bytes of its file, 0 of a directory; None: an older kit's."""

    source: str
    digest: str  # of the uncompressed archive
    size: Whole | None = None


@dataclass(frozen=True)
class InputCache:
    """``inputs/NAME-KEY`` with its facts beside it. ``shared``: what this machine lacks is asked of peers first: what
    has the same key there is the same."""

    cache: Path
    tell: Callable[[str], None]
    shared: bool

    def get(self, item: Input, origin: object, make: Callable[[Path], Path]) -> PreparedInput:
        """The input of that origin from the cache, or what ``make(scratch directory)`` gives: a directory or a
        tarball."""
        suffix = _SUFFIX[item.into]
        key = hashlib.sha256(repr((origin, suffix)).encode()).hexdigest()[:16]
        target = self.cache / "inputs" / f"{item.name}-{key}{suffix}"
        facts = target.with_name(target.name + ".json")
        if not facts.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with scratch(target.parent) as directory:
                new = directory / "repacked"
                digest = self._taken(item, target.name, new, directory) or _repack(make(directory), new, item)
                if item.into == "directory":
                    new = _unpacked(new)
                    remove(target)  # of a start that was killed before it wrote its facts
                size = 0 if new.is_dir() else new.stat().st_size
                new.replace(target)
            facts.write_text(encode_json(_Facts(item.source, digest, size)))
        return PreparedInput(item.name, item.into, target, decode_json(_Facts, facts.read_text()).digest)

    def _taken(self, item: Input, name: str, new: Path, scratch: Path) -> str:
        """Write what a peer has as the archive that making it would give, and return its digest; '' where none has
        it."""

        def take(peer: Peer) -> str | None:
            known = peer.record(_Facts, f"inputs/{name}.json")
            if known is None or known.size is None:
                return None
            source = peer.directory(f"inputs/{name}")
            if item.into == "directory" and source is None:
                return None
            self.tell(f"taking {item.name} from {peer}")
            if source is None:
                source = scratch / f"taken{_SUFFIX[item.into]}"
                peer.bring(f"inputs/{name}", source, known.size, None, self.tell)
            digest = _repack(source, new, replace(item, strip=0, exclude=()))
            if digest != known.digest:
                raise RunError(f"{name} is not what its facts say: digest {digest[:12]}, not {known.digest[:12]}")
            return digest

        return (from_peers(item.name, take, self.tell) or "") if self.shared else ""


def _unpacked(tarball: Path) -> Path:
    directory = tarball.with_name("directory")
    directory.mkdir()
    unpack(tarball, directory, what="unpacking an input")
    return directory


def _identify(source: str) -> str:
    """What must change when the input's content may have: a package's version, a file's size and time."""
    if source.startswith("deb:"):
        return f"{source} {_package_version(source.removeprefix('deb:'))}"
    if source.startswith("git:"):
        return f"{source} {_commit(source.removeprefix('git:'))}"
    path = Path(source)
    if path.is_dir():
        digest = hashlib.sha256()
        for directory, names, files in os.walk(path):
            names.sort()
            for name in sorted(files):
                stat = os.lstat(os.path.join(directory, name))
                digest.update(f"{directory}/{name} {stat.st_size} {stat.st_mtime_ns} {stat.st_mode}\n".encode())
        return f"{path.resolve()} {digest.hexdigest()}"
    if path.is_file():
        stat = path.stat()
        return f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}"
    raise UsageError(f"there is no {source}", "give a directory, a tarball, a file, deb:PACKAGE or git:URL#BRANCH")


def _commit(address: str) -> str:
    """The commit that a branch of a repository is at."""
    url, _, branch = address.partition("#")
    try:
        return run(["git", "ls-remote", "--exit-code", url, branch or "HEAD"], timeout=60, env=_NO_PROMPT).split()[0]
    except RunError as error:
        raise UnavailableError(f"{url} can't be reached: {error.message}", _clone_elsewhere(url, branch)) from None


_NO_PROMPT = {"GIT_TERMINAL_PROMPT": "0"}


def _clone_elsewhere(url: str, branch: str) -> str:
    """What a user does where this machine has no way there."""
    name = url.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return (
        f"where there is a network: git clone {f'-b {branch} ' if branch else ''}{url}; then --param {name}=DIRECTORY"
    )


def _package_version(package: str) -> str:
    try:
        shown = run(["apt-cache", "show", "--no-all-versions", package])
    except RunError:
        raise MachineError(
            f"apt knows no package {package}", "apt-get update, or give a tarball or directory as source"
        ) from None
    return next((line.split()[1] for line in shown.splitlines() if line.startswith("Version:")), "unknown")


def _fetch(source: str, scratch: Path, timeout: float | None) -> Path:
    """A directory or tarball with the content of the source."""
    if source.startswith("git:"):
        url, _, branch = source.removeprefix("git:").partition("#")
        words = ["git", "clone", "-q", "--depth", "1", *(["--branch", branch] if branch else []), url, "clone"]
        run(words, cwd=scratch, env=_NO_PROMPT, timeout=timeout, what=f"clone of {url}")
        return scratch / "clone"
    if not source.startswith("deb:"):
        return Path(source)
    package = source.removeprefix("deb:")
    run(
        ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package],
        cwd=scratch,
        timeout=timeout,
        what=f"download of {package}",
    )
    deb = next(scratch.glob("*.deb"))
    unpacked = scratch / "deb"
    run(["dpkg-deb", "--extract", deb, unpacked], what=f"unpacking {deb.name}")
    tarballs = [path for path in unpacked.rglob("*") if path.name.endswith(_PACKED) and path.is_file()]
    if len(tarballs) != 1:
        raise UsageError(f"package {package} holds {len(tarballs)} source tarballs, not one", "name another source")
    return tarballs[0]


def _repack(source: Path, target: Path, item: Input) -> str:
    """Write the filtered content as a tarball with numeric owners 0:0; returns the digest of the uncompressed tar."""
    if source.is_dir():
        item = replace(item, strip=0)  # what is stripped from a tarball's names is its one top directory
    packer = ["cat"] if item.into != "inputs" else ["zstd", "-q", "-T0", "-3", "-c"]
    digest = hashlib.sha256()
    what = f"repacking {source}"
    try:
        with (
            target.open("wb") as output,
            reading(_reader(source), what) as read,
            writing(packer, output, what) as pack,
        ):
            _filter(read, _Tee(pack, digest.update), item)
            while read.read(1 << 20):
                pass  # the padding after the archive's end
    except tarfile.TarError as error:
        raise UsageError(f"{source} is not a usable tarball: {error}", "check the file") from None
    except RunError as error:
        raise RunError(error.message, "is the disk of the cache full, or the tarball cut short?") from None
    return digest.hexdigest()


def _reader(source: Path) -> list[str]:
    """The command that writes a directory, a tarball's content, or any other file by itself as an archive."""
    if source.is_dir():
        return ["tar", "--sort=name", "-C", str(source), "-cf", "-", "."]
    if source.name.endswith(_PACKED):
        return _decompress(source)
    return ["tar", "-C", str(source.parent), "-cf", "-", f"./{source.name}"]


def _decompress(path: Path) -> list[str]:
    tools = {"gz": "gzip", "tgz": "gzip", "xz": "xz", "zst": "zstd", "bz2": "bzip2"}
    tool = tools.get(path.name.rsplit(".", 1)[-1])
    return [tool, "-dc", str(path)] if tool else ["cat", str(path)]


class _Tee:
    """A writer that also feeds a digest."""

    def __init__(self, file: IO[bytes], update: Callable[[bytes], None]) -> None:
        self._file = file
        self._update = update

    def write(self, data: bytes) -> int:
        self._update(data)
        return self._file.write(data)


def _filter(source: IO[bytes], target: _Tee, item: Input) -> None:
    with (
        tarfile.open(fileobj=source, mode="r|") as reader,
        tarfile.open(fileobj=target, mode="w|", format=tarfile.GNU_FORMAT) as writer,  # type: ignore[call-overload]
    ):
        for member in reader:
            path = _strip(member.name, item.strip)
            if not path or (not member.isdir() and excluded(path, item.exclude)):
                continue
            member.name = path
            if member.islnk():
                member.linkname = _strip(member.linkname, item.strip)
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.pax_headers = {}
            writer.addfile(member, reader.extractfile(member) if member.isreg() else None)


def _strip(name: str, parts: int) -> str:
    return "/".join([part for part in name.split("/") if part not in ("", ".")][parts:])


def excluded(path: str, patterns: tuple[str, ...]) -> bool:
    """The last pattern that matches decides; ``!`` takes back in. ``*`` matches across slashes."""
    out = False
    for pattern in patterns:
        if fnmatch.fnmatchcase(path, pattern.removeprefix("!")):
            out = not pattern.startswith("!")
    return out
