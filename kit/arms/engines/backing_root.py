"""The shared base of the arms of one session and filesystem: the backing, the image, the inputs, the unpacked plain
root."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from kit.arms.engines.plain_root import PlainRoot
from kit.arms.engines.sandbox import DEFAULT_ENV
from kit.arms.filesystem import Backing
from kit.arms.filesystem.block import unmount
from kit.arms.image import Image
from kit.core.errors import MachineError, RunError
from kit.host.mounts import mounts_below
from kit.host.safe_fs import copy_directory, is_directory, remove, unpack

#: Directories of a plain root that each sandbox of a group has for itself, unless a symlink of the image leads there.
_OWN = ("tmp", "var/tmp", "root", "home")


@dataclass
class BackingRoot:
    backing: Backing
    image: Image | None
    inputs: Path | None
    prefix: str = ""  # of all names on the backing, if two backing roots share it
    group: str = ""  # of the control groups of sandboxes that run as one; "" of a sandbox by itself
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

    @contextmanager
    def used_root(self) -> Iterator[tuple[Path, Mapping[Path, str]]]:
        """Yield the plain root for one run, and the directories to mount in it; restore it afterwards.

        The sandboxes of a group share the root, as builds of one machine do. Each has its own temporary directories and
        homes. Raises RunError if one of them changed anything else."""
        root = self.plain_root
        with ExitStack() as stack:
            stack.callback(self._restore)
            own_directories = stack.enter_context(self._own_directories(root.path)) if self.group else {}
            yield root.path, own_directories

    @contextmanager
    def _own_directories(self, root: Path) -> Iterator[Mapping[Path, str]]:
        with self.tree() as directory:
            copies = {}
            for number, name in enumerate(name for name in _OWN if is_directory(root, name)):
                copy_directory(root, name, directory, str(number))
                copies[directory / str(number)] = f"/{name}"
            yield copies

    def _restore(self) -> None:
        changed = self.plain_root.restore()
        if changed and self.group:
            raise RunError(
                f"the workload changes /{changed[0]}, which its copies share outside a container's own root",
                "leave out this arm, or run one copy",
            )

    def below(self, parent: str) -> str:
        """Return the name of the control group below which the sandbox makes its own."""
        return f"{parent}/{self.group}" if self.group else parent

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
