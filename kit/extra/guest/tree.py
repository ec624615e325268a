"""The source tree of a guest kernel: unpacked, patched and configured by the tools of the image that contains it."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO

from kit.arms.engines.root import EngineRoot
from kit.core.errors import UsageError
from kit.extra.guest.recipe import KernelRecipe, refused
from kit.host.command import reading, run
from kit.host.safe_fs import copy_directory, new_file, open_file, unpack

#: make's name for each machine, its target, and the path of the result.
_ARCHITECTURE = {"uml": "um", "qemu": "x86_64"}
_TARGET = {"uml": "linux", "qemu": "bzImage"}
_PRODUCT = {"uml": "linux", "qemu": "arch/x86/boot/bzImage"}
#: Messages of GNU patch: the file that it works on, even a missing one, and the hunks that failed.
_PATCHED = re.compile(r"patching file '?([^' ]+)|\|--- (?:a/)?(\S+)")
_LEFT = re.compile(r"(\d+) out of \d+ hunks? (?:FAILED|ignored)")


@dataclass(frozen=True)
class KernelTree:
    """A kernel's source, patched, configured and compiled in the image's root filesystem."""

    recipe: KernelRecipe
    kind: str  # of the machine
    root: EngineRoot  # the image, unpacked
    directory: Path  # the path of the tree and of all other written files
    _numbers: count[int] = field(default_factory=lambda: count(1))

    @property
    def path(self) -> Path:
        return self.directory / "linux"

    def unpack(self) -> None:
        """Raises UsageError if the image lacks such a source."""
        assert self.root.path
        tarball = self.root.path / self.recipe.linux
        if not tarball.is_file():
            raise UsageError(
                f"the image {self.recipe.name} holds no {self.recipe.linux}",
                "set the key linux of the recipe to a file of the image",
            )
        self.path.mkdir()
        unpack(tarball, self.path, what="unpacking the source of Linux", options=("--strip-components=1",))

    def version(self) -> str:
        """Return the version from the Makefile: 6.1.192."""
        with open_file(self.path, "Makefile") as file:
            head = file.read().decode().splitlines()[:20]
        variables = dict(line.split(" = ", 1) for line in head if " = " in line)
        return ".".join(variables[key] for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))

    def patch(self, source: Path) -> None:
        """Lay the parts of ``source`` over the tree; apply its patches, then the recipe's own. Raises UsageError if
        they are for another Linux."""
        top = patches_top(source, self.recipe)
        for name in self.recipe.parts:
            copy_directory(top, name, self.path, name)
        rejected: Counter[str] = Counter()
        for name in self.recipe.patches:
            with open_file(top, name) as patch:
                rejected += self._apply(name, patch.read())
        if rejected != Counter(self.recipe.rejected):
            raise UsageError(
                f"{source} is not for Linux {self.version()}: hunks that do not apply: {_counted(rejected)}; "
                f"known to the recipe: {_counted(self.recipe.rejected)}",
                "use --source with the branch for this Linux, or another version of it",
            )
        for name in self.recipe.own_patches:
            failed = self._apply(name, self.recipe.file(name).read_bytes())
            if failed:
                raise UsageError(
                    f"{name} does not apply to Linux {self.version()}: {_counted(failed)}", "fix the patch"
                )

    def _apply(self, name: str, patch: bytes) -> Counter[str]:
        """Return the number of hunks of each file that did not apply."""
        copy = self.directory / f"patch-{next(self._numbers)}"  # the root filesystem sees no other directory
        new_file(self.directory, copy.name, patch)
        words = [
            "patch",
            "-d",
            self.path,
            "-p1",
            "--force",
            "--no-backup-if-mismatch",
            "-r",
            "-",
            "-i",
            copy,
        ]
        # Its exit status is 1 if hunks failed, 2 for any other error.
        script = '"$@" || [ $? = 1 ]'
        return left_hunks(self._run(["sh", "-c", script, "sh", *map(str, words)], f"applying {name}"))

    def configure(self, suffix: str) -> None:
        """Write .config; ``suffix``: of the kernel's release. Raises UsageError if an option is refused."""
        requested = {
            **self.recipe.wanted(self.kind),
            "CONFIG_LOCALVERSION": f'"{suffix}"',
            "CONFIG_LOCALVERSION_AUTO": "n",
        }
        self._run(self._make(*self.recipe.machine(self.kind).begin), "the default configuration")
        lines = [f"# {name} is not set\n" if value == "n" else f"{name}={value}\n" for name, value in requested.items()]
        new_file(self.directory, "wanted", "".join(lines).encode())
        script = 'cd "$1" && scripts/kconfig/merge_config.sh -m .config ../wanted >&2'
        self._run(["sh", "-c", script, "sh", str(self.path)], "merging the configuration")
        self._run(self._make("olddefconfig"), "the configuration")
        missing = list(refused(requested, self.configuration().decode()))
        if missing:
            raise UsageError(
                f"Linux {self.version()} does not take {', '.join(missing)}",
                "add what these depend on, as their Kconfig says, to the recipe's fragment",
            )

    @contextmanager
    def compiling(self, jobs: int) -> Iterator[IO[bytes]]:
        """Yield make's output for each file during the build; read it to its end. Raises RunError."""
        with reading(self.enter(self._make(f"-j{jobs}", _TARGET[self.kind])), what="compiling the kernel") as lines:
            yield lines
        with open_file(self.path, _PRODUCT[self.kind]):
            pass  # or RunError: make has not written it

    def configuration(self) -> bytes:
        """Return the .config."""
        with open_file(self.path, ".config") as file:
            return file.read()

    def save(self, target: Path) -> None:
        """Copy the built kernel, without its symbols."""
        if self.kind == "uml":
            self._run(["strip", str(self.path / _PRODUCT[self.kind])], "stripping the kernel")
        with open_file(self.path, _PRODUCT[self.kind]) as product, target.open("xb") as copy:
            shutil.copyfileobj(product, copy)
        target.chmod(0o755)

    def enter(self, words: Sequence[str]) -> list[str]:
        """Return the command line that runs these words in the image."""
        return self.root.enter(words, [self.directory])

    def _make(self, *words: str) -> list[str]:
        return ["make", "-C", str(self.path), f"ARCH={_ARCHITECTURE[self.kind]}", *words]

    def _run(self, words: Sequence[str], what: str) -> str:
        return run(self.enter(words), what=what)


def patches_top(source: Path, recipe: KernelRecipe) -> Path:
    """Return the directory of ``source`` that contains the patches: itself, or its only directory. Raises
    UsageError."""
    inner = [path for path in source.iterdir() if path.is_dir()]
    for top in (source, *(inner if len(inner) == 1 else [])):
        if all((top / name).exists() for name in (*recipe.patches, *recipe.parts)):
            return top
    raise UsageError(f"{source} holds no {recipe.patches[0]}", f"use --source with what {recipe.source} has")


def left_hunks(output: str) -> Counter[str]:
    """Return the number of hunks of each file that GNU patch reports as failed."""
    hunks: Counter[str] = Counter()
    name = ""
    for line in output.splitlines():
        if match := _PATCHED.match(line):
            name = match[1] or match[2]
        elif match := _LEFT.match(line):
            hunks[name] += int(match[1])
    return hunks


def _counted(hunks: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {name}" for name, count in sorted(hunks.items())) or "none"
