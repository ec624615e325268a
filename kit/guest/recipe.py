"""Recipes of guest kernels: a Linux whose source an image holds, patches from elsewhere, and the options of a guest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kit.core.errors import UsageError
from kit.core.paths import resource
from kit.guest.config import options
from kit.image.recipe import read_recipe_table

_FILE = "kernel.toml"


@dataclass(frozen=True)
class MachineRecipe:
    """What the kernel for one machine is made of. ``begin``: what make is told first, ``defconfig`` for example;
    ``fragments``: files beside the recipe that are merged over it. ``files``: about how many are compiled; ``minutes``
    of CPU time that this takes, about."""

    begin: tuple[str, ...]
    fragments: tuple[str, ...]
    files: int
    minutes: int


@dataclass(frozen=True)
class KernelRecipe:
    """``images/NAME/kernel.toml``. The image of that name holds the source, the tarball ``linux``, and all that the
    build needs.

    ``source``: where the ``patches`` and the directories ``parts``, which are laid over the tree, come from where
    nothing else is said. ``own_patches``: files beside the recipe, applied after these. ``rejected``: by file, how many
    hunks of ``patches`` are known not to apply.
    """

    name: str
    summary: str
    linux: str
    source: str
    patches: tuple[str, ...]
    machines: Mapping[str, MachineRecipe]
    parts: tuple[str, ...] = ()
    own_patches: tuple[str, ...] = ()
    rejected: Mapping[str, int] = field(default_factory=dict)

    def machine(self, kind: str) -> MachineRecipe:
        """Raises UsageError where there is none for this machine."""
        if kind not in self.machines:
            raise UsageError(f"the kernel {self.name} is not for {kind}", f"--for {' or '.join(self.machines)}")
        return self.machines[kind]

    def file(self, name: str) -> Path:
        """One beside the recipe."""
        return resource("images") / self.name / name

    def wanted(self, kind: str) -> dict[str, str]:
        """All options that the fragments ask for, the later one's value where two have one. Raises UsageError."""
        found: dict[str, str] = {}
        for name in self.machine(kind).fragments:
            path = self.file(name)
            try:
                found |= options(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise UsageError(f"{path}: {error}", "write CONFIG_X=y or # CONFIG_X is not set") from None
        return found

    def digest(self, kind: str) -> str:
        """Of all that the recipe says of the kernel for this machine."""
        files = [*self.machine(kind).fragments, *self.own_patches]
        said = (self.linux, self.patches, self.parts, dict(self.rejected), self.machine(kind).begin)
        contents = [self.file(name).read_text(encoding="utf-8") for name in files]
        return hashlib.sha256(repr((said, kind, files, contents)).encode()).hexdigest()


def kernel_recipes() -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in resource("images").glob(f"*/{_FILE}")))


def read_kernel_recipe(name: str) -> KernelRecipe:
    """Read a bundled recipe. Raises UsageError naming the file and the key."""
    path = resource("images") / name / _FILE
    if name not in kernel_recipes():
        raise UsageError(f"there is no kernel recipe '{name}'", f"known: {', '.join(kernel_recipes())}")
    return parse_kernel_recipe(path.read_text(encoding="utf-8"), str(path), name)


def parse_kernel_recipe(text: str, path: str, name: str) -> KernelRecipe:
    """``path`` names the text in errors. Raises UsageError."""
    return read_recipe_table(KernelRecipe, text, path, name)
