"""Engine roots: another version of an engine, in its own root filesystem, run on the host's kernel.

A daemon enters it by pivot_root in its own mount namespace (runc can't prepare a root in a chroot). Directories shared
with the kit keep their paths: the session's directory with the backing filesystems, and the inputs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.arms.image import ImageCache, read_recipe, recipes, unpack
from kit.arms.image.decompress import decompressed, usable
from kit.core.errors import RunError, UsageError
from kit.core.private import make_private
from kit.host import safe_fs
from kit.host.cache_use import mark_used
from kit.host.command import environment, run
from kit.host.durable import publish
from kit.host.tarball import check_tarball

#: $1 root, $2 number of shared directories, then these, then the program. pivot_root(2) explains the last two lines
#: before exec: the old root is stacked below the new one, and released.
_ENTER = """
root=$1 count=$2
shift 2
mount --bind "$root" "$root"
for name in dev proc sys; do mount --rbind "/$name" "$root/$name"; done
for name in run tmp; do mount -t tmpfs -o mode=755 kit "$root/$name"; done
while [ "$count" -gt 0 ]; do
	mkdir -p "$root$1"
	mount --rbind "$1" "$root$1"
	shift
	count=$((count-1))
done
cd "$root"
pivot_root . .
umount --lazy .
exec "$@"
"""


#: Mounts the PIDs of a container's namespace. The mount namespace is that of the parent, which the kit knows.
_SEE_PIDS = 'mount -t proc kit /proc; exec "$@"'


@dataclass(frozen=True)
class EngineRoot:
    """The unpacked root filesystem of one version; ``path`` None is the host's own. ``programs``: a directory of the
    host whose programs precede those of PATH. ``within``: a process of the container whose PIDs, IPC, network and host
    name the programs share; 0: none. ``network``: the network namespace of programs outside of containers; None is the
    machine's."""

    path: Path | None = None
    programs: Path | None = None
    within: int = 0
    network: Path | None = None

    def enter(self, argv: Sequence[str], shared: Sequence[Path]) -> list[str]:
        """Return the command line that runs ``argv`` in the root, with ``shared`` directories under their own paths."""
        words = self._first(argv)
        if self.within:
            words = ["nsenter", *_namespaces(self.within, "pid"), "--", "sh", "-euc", _SEE_PIDS, "sh", *words]
        if self.path:
            words = ["sh", "-euc", _ENTER, "sh", str(self.path), str(len(shared)), *map(str, shared), *words]
        words = ["unshare", "--mount", "--propagation", "private", "--", *words] if self._apart else words
        return in_network(self.network, words)

    def join(self, argv: Sequence[str], pid: int) -> list[str]:
        """Return the command line that runs ``argv`` in the root that the process ``pid`` has entered: the two share
        all mounts."""
        words = self._first(argv)
        if self._apart:
            container = _namespaces(pid, "pid_for_children") if self.within else []
            words = ["nsenter", f"--mount=/proc/{pid}/ns/mnt", *container, "--", *words]
        return in_network(self.network, words)

    @property
    def _apart(self) -> bool:
        """Return whether its programs have a mount namespace of their own."""
        return self.path is not None or self.within != 0

    def _first(self, argv: Sequence[str]) -> list[str]:
        return ["env", f"PATH={self.programs}:{environment()['PATH']}", *argv] if self.programs else list(argv)

    def version(self, tool: str) -> str:
        """Return what the tool says of its version. Some read /proc first (fuse-overlayfs 1.15, Podman 5)."""
        return version_line(tool, run(self.enter([tool, "--version"], ())))


def version_line(tool: str, output: str) -> str:
    """Return the line that names the tool and a number, else the first one: FUSE programs begin with the versions of
    their library and of fusermount3."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or [""]
    naming_tool = re.compile(rf"(?<![\w-]){re.escape(tool)}(?![\w-]).*\d")
    return next((line for line in lines if naming_tool.search(line)), lines[0])


def in_network(network: Path | None, words: list[str]) -> list[str]:
    """Return the command line that runs ``words`` in a network namespace; None is the machine's."""
    return ["nsenter", f"--net={network}", "--", *words] if network else words


def _namespaces(pid: int, pids: str) -> list[str]:
    """Return nsenter's options for the namespaces of a process that programs in its container share. ``pids``: which
    PID namespace of it, as /proc names it."""
    names = {"ipc": "ipc", "uts": "uts", "net": "net", "pid": pids}
    return [f"--{kind}=/proc/{pid}/ns/{name}" for kind, name in names.items()]


#: containerd comes with Docker: the engine root that contains each version. Others have recipes of their own.
_CONTAINED = {
    "containerd@1.6": "docker-20.10",
    "containerd@1.7": "docker-26.1",
    "containerd@2.1": "docker-28",
    "containerd@2.3": "docker-29",
}


def root_name(engine: str, version: str) -> str:
    """Return the name of the recipe for the root of ``docker@26.1``."""
    return _CONTAINED.get(f"{engine}@{version}", f"{engine}-{version}")


def versions(engine: str) -> tuple[str, ...]:
    """Return the versions with a recipe."""
    contained = tuple(name.removeprefix(f"{engine}@") for name in _CONTAINED if name.startswith(f"{engine}@"))
    recipe_versions = tuple(name.removeprefix(f"{engine}-") for name in recipes() if name.startswith(f"{engine}-"))
    return contained + recipe_versions


def version_in(image: str, engine: str, package: str) -> str:
    """Return the version of an engine in a recipe's image: that of the engine root which has the same package from the
    same suite; '' without one."""
    suite = read_recipe(image).suite
    for version in versions(engine):
        root = read_recipe(root_name(engine, version))
        if root.suite == suite and package in root.packages:
            return version
    return ""


def check_version(engine: str, where: str = "") -> None:
    """Check that the version which ``docker@26.1`` names has a recipe. ``where``: what names it, for the error. Raises
    UsageError."""
    name, at, version = engine.partition("@")
    if at and version not in versions(name):
        choices = ", ".join(f"{name}@{number}" for number in versions(name))
        users_own = "; or --docker PATH, a Docker of yours" if name == "docker" else ""
        raise UsageError(f"{where}unknown version {engine}", f"use one of: {choices}{users_own}")


def engine_root(engine: str, version: str, cache: Path, tell: Callable[[str], None]) -> EngineRoot:
    """Return the root of ``docker@26.1``, made on first use; the host's own without a version. Raises UsageError for
    an unknown version."""
    if not version:
        return EngineRoot()
    check_version(f"{engine}@{version}")
    return image_root(root_name(engine, version), cache, tell)


def given_programs(source: Path, cache: Path) -> Path:
    """Return the directory of a Docker that the user names: by its dockerd, by the directory, or by Docker's archive of
    static programs, which is unpacked into the cache. Missing programs come from PATH. Raises UsageError."""
    if source.is_file() and source.name != "dockerd":
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
        target = _engines(cache) / f"given-{digest}"
        if not target.is_dir():
            with safe_fs.scratch(target.parent) as scratch:
                new = scratch / "programs"
                new.mkdir()
                try:
                    with usable(source, _GIVEN):
                        whole = decompressed(source, scratch / "whole.tar")
                        check_tarball(whole)
                    safe_fs.unpack(whole, new, what="tar")
                except RunError as error:
                    raise UsageError(f"{source} is not an archive: {error.message}", _GIVEN) from None
                publish(new, target)
        mark_used(target)
        source = next(iter(sorted(target.rglob("dockerd"))), target)
    directory = source.parent if source.is_file() else source
    if not (directory / "dockerd").is_file():
        raise UsageError(f"{directory} holds no dockerd", _GIVEN)
    return directory.absolute()


def _engines(cache: Path) -> Path:
    """Return the directory of engine roots, closed to other users: it contains setuid programs."""
    make_private(cache / "engines")
    return cache / "engines"


_GIVEN = "--docker takes a dockerd, its directory, or an archive of static programs (docker-VERSION.tgz)"


def image_root(name: str, cache: Path, tell: Callable[[str], None]) -> EngineRoot:
    """Return the root filesystem of a recipe, unpacked on first use."""
    image = ImageCache(cache).from_recipe(name, tell=tell)
    path = _engines(cache) / f"{name}-{image.digest[:12]}"
    if not path.is_dir():
        with safe_fs.scratch(path.parent) as scratch:
            unpack(image, scratch / "root")
            publish(scratch / "root", path)
    mark_used(path)
    return EngineRoot(path)
