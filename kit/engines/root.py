"""Engine roots: another version of an engine, in a root filesystem of its own, run on the host's kernel.

A daemon enters it by pivot_root in a mount namespace of its own (a chroot is not enough: runc can't prepare a root
there). What it shares with the kit keeps its path: the session's directory with the backing filesystems, the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.command import run
from kit.errors import MachineError
from kit.image import ImageCache, recipes, unpack

#: $1 root, $2 number of shared directories, then these, then the program. pivot_root(2) has the last two lines before
#: exec: the old root is stacked below the new one, and let go.
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


@dataclass(frozen=True)
class EngineRoot:
    """The unpacked root filesystem of one version; ``path`` None is the host's own."""

    path: Path | None = None

    def enter(self, argv: Sequence[str], shared: Sequence[Path]) -> list[str]:
        """The command line that runs ``argv`` in it, with ``shared`` directories under their own paths."""
        if self.path is None:
            return list(argv)
        words = [str(self.path), str(len(shared)), *map(str, shared), *argv]
        return ["unshare", "--mount", "--propagation", "private", "--", "sh", "-euc", _ENTER, "sh", *words]

    def join(self, argv: Sequence[str], pid: int) -> list[str]:
        """The command line that runs ``argv`` where the process ``pid`` has entered it: what one of them mounts, the
        other must see."""
        if self.path is None:
            return list(argv)
        return ["nsenter", f"--mount=/proc/{pid}/ns/mnt", "--", *argv]

    def version(self, tool: str) -> str:
        words = [tool, "--version"] if self.path is None else ["chroot", str(self.path), tool, "--version"]
        return run(words).splitlines()[0].strip()


#: containerd comes with Docker: which engine root has which version of it.
_CONTAINED = {"containerd@1.6": "docker-20.10", "containerd@1.7": "docker-26.1", "containerd@2.1": "docker-28"}


def root_name(engine: str, version: str) -> str:
    """The recipe of the root of ``docker@26.1``."""
    return _CONTAINED.get(f"{engine}@{version}", f"{engine}-{version}")


def versions(engine: str) -> tuple[str, ...]:
    """Those that there are recipes for."""
    if engine == "containerd":
        return tuple(name.partition("@")[2] for name in _CONTAINED)
    return tuple(name.removeprefix(f"{engine}-") for name in recipes() if name.startswith(f"{engine}-"))


def engine_root(engine: str, version: str, cache: Path, tell: Callable[[str], None]) -> EngineRoot:
    """The root of ``docker@26.1``, made when it is first needed; the host's own without a version."""
    if not version:
        return EngineRoot()
    if version not in versions(engine):
        known = ", ".join(f"{engine}@{item}" for item in versions(engine))
        raise MachineError(f"there is no {engine}@{version}", f"use one of: {known}")
    return image_root(root_name(engine, version), cache, tell)


def image_root(name: str, cache: Path, tell: Callable[[str], None]) -> EngineRoot:
    """The root filesystem of a recipe, unpacked when it is first needed."""
    image = ImageCache(cache).from_recipe(name, tell=tell)
    path = cache / "engines" / f"{name}-{image.digest[:12]}"
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".new-{path.name}")
        if new.exists():
            run(["rm", "-rf", new])
        unpack(image, new)
        new.replace(path)
    return EngineRoot(path)
