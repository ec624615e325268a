"""What a guest machine is told, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kit.engines.root import EngineRoot, image_root
from kit.image import Image, ImageCache
from kit.model.fact import Fact

READ, COPY, WRITE = "read-only", "copy-on-write", "read and write"


@dataclass(frozen=True)
class Disk:
    """A file that the guest sees as a block device; it finds it by the label of its filesystem."""

    path: Path
    mode: str


@dataclass(frozen=True)
class Kernel:
    """The kernel that the user gave, and the directory of its modules; None: the kit's own."""

    path: Path | None = None
    modules: Path | None = None


@dataclass(frozen=True)
class Boot:
    """One boot. The first disk holds the root filesystem. ``channel``: file descriptor for what the guest says on its
    device of that name. ``directory``: where the machine may write, copies of blocks for example; short."""

    disks: Sequence[Disk]
    memory: int  # bytes
    cores: int
    channel: int
    directory: Path


@dataclass(frozen=True)
class Tools:
    """Where a machine gets what it runs on: root filesystems of the kit's recipes, kept in the cache."""

    cache: Path
    tell: Callable[[str], None] = lambda text: None

    def image(self, name: str) -> Image:
        return ImageCache(self.cache).from_recipe(name, tell=self.tell)

    def root(self, name: str) -> EngineRoot:
        """The unpacked root filesystem of a recipe, for programs that run on the host from there."""
        return image_root(name, self.cache, self.tell)

    @property
    def directory(self) -> Path:
        """Where disks and kernels of guests are kept."""
        path = self.cache / "guest"
        path.mkdir(parents=True, exist_ok=True)
        return path


class Machine(Protocol):
    """One kind of guest. Its constructor takes Tools and a Kernel, and checks neither."""

    kind: str
    channel: str  # the device on which the guest talks
    patience: float  # seconds of silence after which it hangs

    def check(self) -> None:
        """Raises MachineError or UsageError where it can't run here."""

    def cores(self, host: int) -> int:
        """How many it has on a host with so many."""

    def command(self, boot: Boot) -> list[str]:
        """The command line that boots it; it ends when the guest has powered off."""

    def modules(self) -> Path | None:
        """The directory of the kernel's modules that the guest's root filesystem lacks."""

    def facts(self) -> list[Fact]:
        """What a reader of its figures must know: its name and its accelerator."""

    def accelerated(self) -> bool:
        """True where the CPU itself runs the guest's kernel."""


#: The command line of every guest's kernel.
def kernel_words(root: str, channel: str) -> list[str]:
    return [f"root={root}", "rw", "init=/kit-init", "quiet", "panic=-1", f"kit.channel={channel}"]
