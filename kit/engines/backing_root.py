"""The shared base of the arms of one session and filesystem: the backing, the image, the inputs, the unpacked plain
root."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from kit.core.errors import MachineError
from kit.engines.plain_root import PlainRoot
from kit.engines.sandbox import DEFAULT_ENV
from kit.filesystem import Backing
from kit.filesystem.block import unmount
from kit.host.mounts import mounts_below
from kit.host.safe_fs import remove, unpack
from kit.image import Image


@dataclass
class BackingRoot:
    backing: Backing
    image: Image | None
    inputs: Path | None
    prefix: str = ""  # of all names on the backing, if two backing roots share it
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _plain_root: PlainRoot | None = None

    def unpack_root(self) -> None:
        """Unpack the image on this backing, once. Bare and runtime arms share it, so both read the same files. Raises
        KitError."""
        if self._plain_root is None:
            self._plain_root = PlainRoot(self.needed_image, self.backing.path / f"{self.prefix}root")

    @property
    def plain_root(self) -> PlainRoot:
        """Return the result of ``unpack_root``, in its first state. Raises RunError if a run's changes can't be
        undone."""
        assert self._plain_root, "unpack_root comes first"
        self._plain_root.check()
        return self._plain_root

    @property
    def needed_image(self) -> Image:
        if self.image is None:
            raise MachineError(
                "this arm runs an image's root filesystem, and none is given", "give --image, or use the arm host"
            )
        return self.image

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of commands in an arm with its own root filesystem: the same for all of them."""
        return {**DEFAULT_ENV, **dict(self.image.env if self.image else ())}

    @contextmanager
    def tree(self) -> Iterator[Path]:
        """Yield a new build tree in a plain directory of the backing filesystem; remove it afterwards."""
        path = self.backing.path / self.new_name()
        path.mkdir()
        path.chmod(0o755)  # whatever the umask is: users of scenarios go there
        try:
            yield path
        finally:
            remove_tree(path)

    def new_name(self) -> str:
        """Return a name for a tree or a volume, unique on this backing root."""
        return f"{self.prefix}tree-{next(self._numbers)}"


def remove_tree(tree: Path) -> None:
    """Remove a build tree, after unmounting everything in it. Raises RunError if that fails; the tree is then left."""
    for mount in mounts_below(tree):
        unmount(mount.path)
    remove(tree)


def unpack_tree(tree: Path, tarball: Path) -> None:
    """Fill a build tree that the host can reach by path. Raises RunError if the tree is a symlink."""
    unpack(tarball, tree, what="putting the sources in place")
