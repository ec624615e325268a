"""Guest kernels that the kit has built: made once for the same recipe, source and image, and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kit.core.codec import UnreadableError, decode
from kit.core.errors import UsageError
from kit.engines.root import image_root
from kit.guest.kernel import OWN
from kit.guest.recipe import KernelRecipe
from kit.guest.tree import KernelTree
from kit.host.beneath import remove, scratch
from kit.host.durable import publish, read_record, write_record
from kit.image import ImageCache

#: Seconds from one word on how far the compiler has come to the next.
_EVERY = 20.0
#: A line of make begins with what it does: these compile a file.
_COMPILED = ("CC", "AS", "HOSTCC")


@dataclass(frozen=True)
class PatchSource:
    """Where patches come from, as a directory; ``origin``: as the user said it, ``digest``: of its content."""

    path: Path
    origin: str
    digest: str


@dataclass(frozen=True)
class BuiltKernel:
    """``machine``: uml or qemu. ``release``: what uname -r says in it. ``seconds``: that the build took."""

    recipe: str
    machine: str
    release: str
    origin: str
    created: float
    seconds: float
    path: Path

    @property
    def size(self) -> int:
        """Bytes of the kernel."""
        return self.path.stat().st_size


class KernelCache:
    """``kernels/RECIPE-MACHINE-KEY/`` with ``kernel``, ``config`` and ``kernel.json``, complete or not there."""

    def __init__(self, cache: Path, tell: Callable[[str], None] = lambda text: None) -> None:
        self.directory = cache / "kernels"
        self._cache = cache
        self._tell = tell

    def list(self) -> tuple[BuiltKernel, ...]:
        """Newest first."""
        found = [self._read(path.parent) for path in self.directory.glob("*/kernel.json")]
        return tuple(sorted(filter(None, found), key=lambda kernel: -kernel.created))

    def find(self, recipe: str, machine: str, release: str = "") -> BuiltKernel | None:
        """The one of that release where it is still there, else the newest."""
        fitting = [item for item in self.list() if (item.recipe, item.machine) == (recipe, machine)]
        return next((item for item in fitting if item.release == release), next(iter(fitting), None))

    def remove(self, recipe: str) -> tuple[BuiltKernel, ...]:
        """Those of a recipe. Raises UsageError where there is none."""
        gone = tuple(kernel for kernel in self.list() if kernel.recipe == recipe)
        if not gone:
            raise UsageError(f"no kernel {recipe} is built", "kit kernel list shows what there is")
        for kernel in gone:
            remove(kernel.path.parent)
        return gone

    def build(self, recipe: KernelRecipe, machine: str, source: PatchSource, force: bool = False) -> BuiltKernel:
        """The kernel from the cache, or a new one. Raises UsageError where recipe and source do not fit each other,
        RunError where the compiler fails."""
        about = recipe.machine(machine)
        image = ImageCache(self._cache).from_recipe(recipe.name, tell=self._tell)
        said = hashlib.sha256(f"{recipe.digest(machine)} {source.digest}".encode()).hexdigest()
        key = hashlib.sha256(f"{said} {image.digest}".encode()).hexdigest()
        target = self.directory / f"{recipe.name}-{machine}-{key[:12]}"
        found = None if force else self._read(target)
        if found:
            return found
        self._tell(
            f"building the guest kernel {recipe.name} for {machine} "
            f"(once, about {about.minutes} minutes of CPU time; {len(os.sched_getaffinity(0))} CPUs)"
        )
        root = image_root(recipe.name, self._cache, self._tell)
        self.directory.mkdir(parents=True, exist_ok=True)
        begin = time.time()
        with scratch(self.directory) as directory:
            tree = KernelTree(recipe, machine, root, directory)
            version = self._prepare(tree, source.path, f"{OWN}{said[:8]}")
            self._compile(tree, about.files)
            new = directory / "built"
            new.mkdir()
            tree.save(new / "kernel")
            shutil.copyfile(tree.path / ".config", new / "config")
            facts = BuiltKernel(
                recipe.name, machine, version, source.origin, time.time(), time.time() - begin, target / "kernel"
            )
            kept = {name: value for name, value in asdict(facts).items() if name != "path"}
            write_record(new / "kernel.json", kept)
            remove(target)
            publish(new, target)
        return facts

    def _prepare(self, tree: KernelTree, source: Path, suffix: str) -> str:
        """Returns the release of the kernel that it will be."""
        self._tell("unpacking, patching and configuring Linux")
        tree.unpack()
        tree.patch(source)
        tree.configure(suffix)
        return tree.version() + suffix

    def _compile(self, tree: KernelTree, files: int) -> None:
        done, begin, told = 0, time.monotonic(), time.monotonic()
        with tree.compiling(len(os.sched_getaffinity(0))) as lines:
            for line in lines:
                step, _, file = line.decode(errors="replace").strip().partition(" ")
                done += step in _COMPILED
                if time.monotonic() - told >= _EVERY:
                    told = time.monotonic()
                    self._tell(f"compiling, {told - begin:.0f} s: {done} of about {files} files, {file.strip()}")

    @staticmethod
    def _read(directory: Path) -> BuiltKernel | None:
        """None where there is none, or none that can be read: it is built again."""
        kept = read_record(dict[str, Any], directory / "kernel.json")
        try:
            return decode(BuiltKernel, {**(kept or {}), "path": str(directory / "kernel")})
        except UnreadableError:
            return None
