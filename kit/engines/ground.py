"""What arms of one session and filesystem stand on: the backing, the image, the inputs, the unpacked plain root."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from kit.core.errors import MachineError
from kit.engines.place import DEFAULT_ENV
from kit.engines.plain_root import PlainRoot
from kit.filesystem import Backing
from kit.filesystem.block import unmount
from kit.host.beneath import remove, unpack
from kit.host.mounts import mounts_below
from kit.image import Image


@dataclass
class Ground:
    backing: Backing
    image: Image | None
    inputs: Path | None
    prefix: str = ""  # of all names on the backing, where two grounds share it
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _plain_root: PlainRoot | None = None

    def unpack_root(self) -> None:
        """Unpack the image on this backing, once: bare and runtime share it, so that both read the same files. Raises
        KitError."""
        if self._plain_root is None:
            self._plain_root = PlainRoot(self.needed_image, self.backing.path / f"{self.prefix}root")

    @property
    def plain_root(self) -> PlainRoot:
        """What ``unpack_root`` has made, in its first state. Raises RunError where what a run left can't be undone."""
        assert self._plain_root, "unpack_root comes first"
        self._plain_root.check()
        return self._plain_root

    @property
    def needed_image(self) -> Image:
        if self.image is None:
            raise MachineError(
                "this arm runs an image's root filesystem, and none is given", "--image, or the arm host"
            )
        return self.image

    @property
    def env(self) -> dict[str, str]:
        """What commands see in an arm with a root filesystem of its own: the same on all of them."""
        return {**DEFAULT_ENV, **dict(self.image.env if self.image else ())}

    @contextmanager
    def tree(self) -> Iterator[Path]:
        """A new build tree in a plain directory of the backing filesystem, removed afterwards; what is mounted in it by
        then is unmounted first, and what can't be is left alone, with an error."""
        path = self.backing.path / self.new_name()
        path.mkdir()
        path.chmod(0o755)  # whatever the umask is: users of scenarios go there
        try:
            yield path
        finally:
            for mount in mounts_below(path):
                unmount(mount.path)
            remove(path)

    def new_name(self) -> str:
        """For a tree or a volume: no two on this ground are alike."""
        return f"{self.prefix}tree-{next(self._numbers)}"


def unpack_tree(tree: Path, tarball: Path) -> None:
    """Fill a build tree that the host can reach by path. Raises RunError where it is a symlink."""
    unpack(tarball, tree, what="putting the sources in place")
