"""Recipes of guest kernels: a Linux source from an image, patches from other sources, and the options of a guest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kit.arms.image.recipe import read_recipe_table
from kit.core.errors import UsageError
from kit.core.paths import resource

_FILE = "kernel.toml"
#: Lines of a .config (Documentation/kbuild/kconfig-language.rst).
_SET = re.compile(r"(CONFIG_\w+)=(\S.*)")
_UNSET = re.compile(r"# (CONFIG_\w+) is not set")
_NO = "n"


@dataclass(frozen=True)
class MachineRecipe:
    """The components of the kernel for one machine."""

    begin: tuple[str, ...]  # make's first target, for example defconfig
    fragments: tuple[str, ...]  # files beside the recipe that are merged over it
    files: int  # approximate number of compiled files
    minutes: int  # approximate CPU time


@dataclass(frozen=True)
class KernelRecipe:
    """``images/NAME/kernel.toml``. The image of that name contains the source and all build tools."""

    name: str
    summary: str
    linux: str  # the source's tarball in the image
    source: str  # the default source of the patches and parts
    patches: tuple[str, ...]  # files of the source
    machines: Mapping[str, MachineRecipe]
    parts: tuple[str, ...] = ()  # directories of the source, laid over the tree
    own_patches: tuple[str, ...] = ()  # files beside the recipe, applied after these
    # By file, the number of hunks of the patches that are known not to apply
    rejected: Mapping[str, int] = field(default_factory=dict)

    def machine(self, kind: str) -> MachineRecipe:
        """Return the build for this machine. Raises UsageError if the recipe has none."""
        if kind not in self.machines:
            raise UsageError(f"the kernel {self.name} is not for {kind}", f"use --for {' or '.join(self.machines)}")
        return self.machines[kind]

    def file(self, name: str) -> Path:
        """Return the path of a file beside the recipe."""
        return resource("images") / self.name / name

    def wanted(self, kind: str) -> dict[str, str]:
        """Return all options that the fragments request; a later fragment's value wins. Raises UsageError."""
        requested: dict[str, str] = {}
        for name in self.machine(kind).fragments:
            path = self.file(name)
            try:
                requested |= options(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise UsageError(f"{path}: {error}", "write CONFIG_X=y or # CONFIG_X is not set") from None
        return requested

    def digest(self, kind: str) -> str:
        """Return the digest of everything that the recipe says of the kernel for this machine."""
        files = [*self.machine(kind).fragments, *self.own_patches]
        fields = (self.linux, self.patches, self.parts, dict(self.rejected), self.machine(kind).begin)
        contents = [self.file(name).read_text(encoding="utf-8") for name in files]
        return hashlib.sha256(repr((fields, kind, files, contents)).encode()).hexdigest()


def kernel_recipes() -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in resource("images").glob(f"*/{_FILE}")))


def read_kernel_recipe(name: str) -> KernelRecipe:
    """Read a bundled recipe. Raises UsageError naming the file and the key."""
    path = resource("images") / name / _FILE
    if name not in kernel_recipes():
        raise UsageError(f"unknown kernel recipe '{name}'", f"use one of: {', '.join(kernel_recipes())}")
    return parse_kernel_recipe(path.read_text(encoding="utf-8"), str(path), name)


def parse_kernel_recipe(text: str, path: str, name: str) -> KernelRecipe:
    """Read a recipe's text. ``path`` names it in errors. Raises UsageError."""
    return read_recipe_table(KernelRecipe, text, path, name)


def options(text: str) -> dict[str, str]:
    """Return each option with its value, ``n`` if it is not set. Raises ValueError for a line that is not an option,
    comment or blank."""
    values = {}
    for line in text.splitlines():
        if match := _SET.fullmatch(line):
            values[match[1]] = match[2]
        elif match := _UNSET.fullmatch(line):
            values[match[1]] = _NO
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"'{line[:60]}' is not an option of a kernel")
    return values


def refused(requested: Mapping[str, str], config: str) -> Iterator[str]:
    """Return the requested options that differ in a .config, as "CONFIG_X=y (is n)": a dependency is missing, or this
    Linux does not have the option."""
    configured = options(config)
    for name, value in requested.items():
        actual = configured.get(name, _NO)
        if actual != value:
            yield f"{name}={value} (is {actual})"
