"""Image recipes: ``images/NAME/image.toml`` names suite and packages; mmdebstrap makes a reproducible tarball.

A recipe's program may write layers above the packages: a directory for each, lowest first."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from kit.arms.image.go_programs import GoPrograms
from kit.arms.image.image_files import write_docker_archive
from kit.arms.image.manifest import architectures
from kit.arms.image.mmdebstrap import PROGRAM, explain, run_mmdebstrap, together
from kit.arms.image.rust_programs import RustPrograms
from kit.core.errors import RunError, UsageError
from kit.core.paths import resource
from kit.core.redact import redact
from kit.core.table import MissingKeyError, UnknownKeyError, WrongTypeError, read_table
from kit.core.toml import parse_toml
from kit.host.command import CommandError, run
from kit.host.safe_fs import scratch

T = TypeVar("T")

#: All timestamps in a built image are limited to this: the same packages give the same bytes.
SOURCE_DATE_EPOCH = "1700000000"
#: Their Release files expire within days, so apt would refuse a mirror that lags behind. Signatures are still checked.
_ROLLING = ("unstable", "testing", "sid")
#: For each program in Rust, on two cores.
_RUST_MINUTES = 12


@dataclass(frozen=True)
class Recipe:
    name: str
    summary: str
    suite: str
    packages: tuple[str, ...]
    components: tuple[str, ...] = ("main",)
    customize: tuple[str, ...] = ()  # mmdebstrap customize hooks
    layers: str = ""  # program beside the recipe that writes layers above the packages: see kit.arms.image.recipe
    go: str = field(default="", repr=False)  # version of Go that builds the following
    go_programs: tuple[str, ...] = field(default=(), repr=False)  # see GoPrograms; put into /usr/bin
    go_flags: tuple[str, ...] = field(default=(), repr=False)  # of go install
    rust_programs: tuple[str, ...] = field(default=(), repr=False)  # see RustPrograms; put into /usr/bin

    @property
    def digest(self) -> str:
        files = [*([self._program] if self.layers else []), *self.mains]
        programs = "".join(file.read_text(encoding="utf-8") for file in files)
        built = repr((self.go, self.go_programs, self.go_flags)) if self.go else ""  # other images keep their digests
        built += repr(self.rust_programs) if self.rust_programs else ""
        return hashlib.sha256((repr(self) + programs + built).encode()).hexdigest()

    @property
    def sources(self) -> str:
        """Return in words what it is built from, and how long that takes."""
        packages = f"{len(self.packages)} packages of {self.suite}"
        built = [(self.go_programs, "Go", 2), (self.rust_programs, "Rust", _RUST_MINUTES)]
        if not any(names for names, _, _ in built):
            return f"{packages} (once, about a minute)"
        words = [f"{len(names)} program{'s'[len(names) == 1 :]} in {language}" for names, language, _ in built if names]
        minutes = sum(len(names) * each for names, _, each in built)
        return f"{packages} and {' and '.join(words)} (once, about {minutes} minutes)"

    @property
    def _file(self) -> Path:
        return resource("images") / self.name / "image.toml"

    @property
    def _program(self) -> Path:
        return resource("images") / self.name / self.layers

    @property
    def mains(self) -> list[Path]:
        """Return the files beside the recipe that are main packages, as PROGRAM.go: see GoPrograms."""
        return sorted(self._file.parent.glob("*.go")) if self.go else []

    def build(self, destination: Path, archive: Path, log: Path) -> None:
        """Write the root filesystem as a tarball, and an archive of its layers if it has any. Raises MachineError if
        mmdebstrap is missing or cannot work for this user, RunError if it fails; ``log`` then has its output."""
        log.unlink(missing_ok=True)
        with scratch(destination.parent) as workspace:
            self._make(destination, self._hooks(workspace), log)
        if self.layers:
            add_layers(self._program, destination, archive, SOURCE_DATE_EPOCH)

    def _hooks(self, workspace: Path) -> list[str]:
        """Build what is installed beside packages, in a directory; return the hooks that install it."""
        hooks, programs = [], workspace / "programs"
        if self.go_programs:
            GoPrograms(self.go, self.go_programs, self.go_flags, self.mains).build(programs, together())
        if self.rust_programs:
            RustPrograms(self.rust_programs).build(programs, together())
        if self.go_programs or self.rust_programs:
            hooks.append(f'install -D -m 755 -t "$1/usr/bin" {shlex.quote(str(programs))}/*')
        return hooks

    def _make(self, destination: Path, hooks: Sequence[str], log: Path) -> None:
        try:
            self._bootstrap(destination, [f"--customize-hook={hook}" for hook in hooks])
        except CommandError as error:
            output = redact(error.said)
            log.write_text(output + "\n", encoding="utf-8")
            reason = f"building image {self.name} failed: {explain(output) or error.message}"
            hint = f"check suite ({self.suite}) and packages in {self._file}; full log: {log}"
            raise RunError(reason, hint) from None

    def _bootstrap(self, destination: Path, options: Sequence[str]) -> None:
        words = self.command(destination, *options)[1:]
        run_mmdebstrap(words, destination.parent, {"SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH})

    def command(self, destination: Path, *options: str) -> list[str | Path]:
        """Return mmdebstrap's command line. It has no option for quiet, which would hide apt's errors."""
        # Differs between builds of the same packages, and is of no use to a build.
        last = 'rm -f "$1/var/cache/ldconfig/aux-cache" "$1/etc/hostname" "$1/etc/resolv.conf"'
        return [
            PROGRAM,
            "--variant=apt",
            "--format=tar",
            *(["--aptopt=Acquire::Check-Valid-Until false"] if self.suite in _ROLLING else []),
            f"--components={','.join(self.components)}",
            f"--include={','.join(self.packages)}",
            *(f"--customize-hook={hook}" for hook in self.customize),
            *options,
            f"--customize-hook={last}",
            self.suite,
            destination,
        ]


def recipes() -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in resource("images").glob("*/image.toml")))


def read_recipe(name: str) -> Recipe:
    """Read a bundled recipe. Raises UsageError naming the file and the key."""
    path = resource("images") / name / "image.toml"
    if not path.is_file():
        raise UsageError(f"unknown image recipe '{name}'", f"use one of: {', '.join(recipes())}")
    return parse_recipe(path.read_text(encoding="utf-8"), str(path), name)


def parse_recipe(text: str, path: str, name: str) -> Recipe:
    """Read a recipe's text. ``path`` names it in errors. Raises UsageError."""
    return read_recipe_table(Recipe, text, path, name)


def read_recipe_table(kind: type[T], text: str, path: str, name: str) -> T:
    """Read a recipe of any kind; its directory gives its name. Raises UsageError with path and key."""
    try:
        return read_table(kind, parse_toml(text, path), name=name)
    except MissingKeyError as error:
        raise UsageError(f"{path}: lacks the key '{error.key}'", "add it") from None
    except UnknownKeyError as error:
        raise UsageError(f"{path}: unknown key '{error.key}'", f"use one of: {error.known}") from None
    except WrongTypeError as error:
        raise UsageError(f"{path}: {error.key} is not {error.wanted}", "see the other recipes") from None


def add_layers(program: Path, rootfs: Path, archive: Path, date: str) -> None:
    """Run ``program DIRECTORY``, add each layer it writes to the tarball ``rootfs``, and write ``archive``, an image
    that keeps the layers apart (Docker Image Specification v1.2, the format of ``docker save``). ``date``: of files,
    in seconds since 1970."""
    with scratch(rootfs.parent) as workspace:
        written = workspace / "layers"
        written.mkdir()
        run([sys.executable, "-I", program, written], what=f"layers of {program.parent.name}")
        base = workspace / "base.tar"
        base.write_bytes(b"")
        run(["cp", "--reflink=auto", rootfs, base])
        layers = [base]
        alike = ("--sort=name", f"--mtime=@{date}", "--owner=0", "--group=0", "--numeric-owner")
        for directory in sorted(written.iterdir()):
            tarball = directory.with_suffix(".tar")
            run(["tar", *alike, "-C", directory, "-cf", tarball, "."], what=f"layer {directory.name}")
            run(["tar", *alike, "-C", directory, "--append", "-f", rootfs, "."], what=f"layer {directory.name}")
            layers.append(tarball)
        _write_archive(layers, archive)


def _write_archive(layers: list[Path], archive: Path) -> None:
    digests = []
    for layer in layers:
        with layer.open("rb") as file:
            digests.append(f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}")
    config = json.dumps(
        {
            "architecture": architectures()[0],
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": digests},
        }
    ).encode()
    with archive.open("wb") as file:
        write_docker_archive(file, config, list(zip(digests, layers, strict=True)))
