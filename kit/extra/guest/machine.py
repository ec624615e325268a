"""The interface of a guest machine: what it receives, and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kit.arms.engines.root import EngineRoot, image_root
from kit.arms.image import Image, ImageCache
from kit.core.private import make_directory, make_private
from kit.model.fact import Fact

READ, COPY, WRITE = "read-only", "copy-on-write", "read and write"


@dataclass(frozen=True)
class Disk:
    """A file that the guest sees as a block device, and finds by its filesystem's label."""

    path: Path
    mode: str


@dataclass(frozen=True)
class Kernel:
    """The user's kernel, and the directory of its modules; None: the kit's own."""

    path: Path | None = None
    modules: Path | None = None


@dataclass(frozen=True)
class Boot:
    """One boot."""

    disks: Sequence[Disk]  # the first contains the root filesystem
    memory: int  # bytes
    cores: int
    channel: int  # file descriptor for the guest's output on its device of that name
    directory: Path  # a short path of the machine's own files, for example copies of blocks


@dataclass(frozen=True)
class Tools:
    """The source of a machine's programs: root filesystems of the kit's recipes, kept in the cache."""

    cache: Path
    tell: Callable[[str], None] = lambda text: None

    def image(self, name: str) -> Image:
        return ImageCache(self.cache).from_recipe(name, tell=self.tell)

    def root(self, name: str) -> EngineRoot:
        """Return the unpacked root filesystem of a recipe, for programs that run on the host from there."""
        return image_root(name, self.cache, self.tell)

    @property
    def directory(self) -> Path:
        """Return the directory of the guests' disks and kernels."""
        path = self.cache / "guest"
        make_private(self.cache)
        make_directory(path)
        return path


class Machine(Protocol):
    """One kind of guest. Its constructor takes Tools and a Kernel, and checks neither."""

    kind: str
    channel: str  # the guest's device for messages
    patience: float  # seconds of silence after which it counts as hung

    def check(self) -> None:
        """Raises MachineError or UsageError if it can't run here."""

    def warning(self) -> str:
        """Return what may go wrong in it on this machine, and the fix; '' for nothing."""

    def cores(self, host: int) -> int:
        """Return its number of CPUs when the host has ``host`` of them."""

    def command(self, boot: Boot) -> list[str]:
        """Return the command line that boots it; it ends when the guest has powered off."""

    def modules(self) -> Path | None:
        """Return the directory of the kernel's modules that the guest's root filesystem lacks."""

    def facts(self) -> list[Fact]:
        """Return what a reader of its figures must know: its name and its accelerator."""

    def accelerated(self) -> bool:
        """Return True if the CPU itself runs the guest's kernel."""


#: The command line of every guest's kernel.
def kernel_words(root: str, channel: str) -> list[str]:
    return [f"root={root}", "rw", "init=/kit-init", "quiet", "panic=-1", f"kit.channel={channel}"]
