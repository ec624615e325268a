"""Guest kernels that the kit has built: once for the same recipe, source and image, and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kit.arms.engines.root import image_root
from kit.arms.image import ImageCache
from kit.core.codec import UnreadableError, decode
from kit.core.errors import UsageError
from kit.core.private import make_directory
from kit.extra.guest.kernel import OWN
from kit.extra.guest.recipe import KernelRecipe
from kit.extra.guest.tree import KernelTree
from kit.host.durable import publish, read_record, write_record
from kit.host.safe_fs import remove, scratch

#: Seconds between two progress messages of the compiler.
_EVERY = 20.0
#: A line of make begins with its action: these compile a file.
_COMPILED = ("CC", "AS", "HOSTCC")


@dataclass(frozen=True)
class PatchSource:
    """The source of patches, as a directory."""

    path: Path
    origin: str  # as the user named it
    digest: str  # of its content


@dataclass(frozen=True)
class BuiltKernel:
    """A kernel in the cache."""

    recipe: str
    machine: str  # uml or qemu
    release: str  # as uname -r prints it
    origin: str
    created: float  # Unix time
    seconds: float  # duration of the build
    path: Path

    @property
    def size(self) -> int:
        """Return the bytes of the kernel."""
        return self.path.stat().st_size


class KernelCache:
    """``kernels/RECIPE-MACHINE-KEY/`` with ``kernel``, ``config`` and ``kernel.json``, complete or missing."""

    def __init__(self, cache: Path, tell: Callable[[str], None] = lambda text: None) -> None:
        self.directory = cache / "kernels"
        self._cache = cache
        self._tell = tell

    def list(self) -> tuple[BuiltKernel, ...]:
        """Return the kernels, the newest first."""
        kernels = [self._read(path.parent) for path in self.directory.glob("*/kernel.json")]
        return tuple(sorted(filter(None, kernels), key=lambda kernel: -kernel.created))

    def find(self, recipe: str, machine: str, release: str = "") -> BuiltKernel | None:
        """Return the kernel with that release if it still exists, else the newest."""
        fitting = [kernel for kernel in self.list() if (kernel.recipe, kernel.machine) == (recipe, machine)]
        return next((kernel for kernel in fitting if kernel.release == release), next(iter(fitting), None))

    def remove(self, recipe: str) -> tuple[BuiltKernel, ...]:
        """Return the kernels of a recipe. Raises UsageError if no kernel exists."""
        gone = tuple(kernel for kernel in self.list() if kernel.recipe == recipe)
        if not gone:
            raise UsageError(f"no kernel {recipe} is built", "list them with kit kernel list")
        for kernel in gone:
            remove(kernel.path.parent)
        return gone

    def build(self, recipe: KernelRecipe, machine: str, source: PatchSource, force: bool = False) -> BuiltKernel:
        """Return the kernel from the cache, or build it. Raises UsageError if recipe and source do not belong together,
        RunError if the compiler fails."""
        about = recipe.machine(machine)
        image = ImageCache(self._cache).from_recipe(recipe.name, tell=self._tell)
        source_digest = hashlib.sha256(f"{recipe.digest(machine)} {source.digest}".encode()).hexdigest()
        key = hashlib.sha256(f"{source_digest} {image.digest}".encode()).hexdigest()
        target = self.directory / f"{recipe.name}-{machine}-{key[:12]}"
        cached = None if force else self._read(target)
        if cached:
            return cached
        self._tell(
            f"building the guest kernel {recipe.name} for {machine} "
            f"(once, about {about.minutes} minutes of CPU time; {len(os.sched_getaffinity(0))} CPUs)"
        )
        root = image_root(recipe.name, self._cache, self._tell)
        make_directory(self.directory)
        begin = time.monotonic()
        with scratch(self.directory) as directory:
            tree = KernelTree(recipe, machine, root, directory)
            version = self._prepare(tree, source.path, f"{OWN}{source_digest[:8]}")
            self._compile(tree, about.files)
            new = directory / "built"
            new.mkdir()
            tree.save(new / "kernel")
            (new / "config").write_bytes(tree.configuration())
            facts = BuiltKernel(
                recipe.name, machine, version, source.origin, time.time(), time.monotonic() - begin, target / "kernel"
            )
            record = {name: value for name, value in asdict(facts).items() if name != "path"}
            write_record(new / "kernel.json", record)
            remove(target)
            publish(new, target)
        return facts

    def _prepare(self, tree: KernelTree, source: Path, suffix: str) -> str:
        """Return the release of the future kernel."""
        self._tell("unpacking, patching and configuring Linux")
        tree.unpack()
        tree.patch(source)
        tree.configure(suffix)
        return tree.version() + suffix

    def _compile(self, tree: KernelTree, files: int) -> None:
        compiled, begin, reported_at = 0, time.monotonic(), time.monotonic()
        with tree.compiling(len(os.sched_getaffinity(0))) as lines:
            for line in lines:
                step, _, file = line.decode(errors="replace").strip().partition(" ")
                compiled += step in _COMPILED
                if time.monotonic() - reported_at >= _EVERY:
                    reported_at = time.monotonic()
                    self._tell(
                        f"compiling, {reported_at - begin:.0f} s: {compiled} of about {files} files, {file.strip()}"
                    )

    @staticmethod
    def _read(directory: Path) -> BuiltKernel | None:
        """Return None if the record is missing or unreadable: then the kernel is rebuilt."""
        record = read_record(dict[str, Any], directory / "kernel.json")
        try:
            return decode(BuiltKernel, {**(record or {}), "path": str(directory / "kernel")})
        except UnreadableError:
            return None
