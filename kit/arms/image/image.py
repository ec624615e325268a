"""Images in the cache: a root filesystem as one tarball, and the archive of its layers if it has layers."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kit.arms.image.decompress import Allowance, decompressed, usable
from kit.arms.image.flatten import copy_tarball
from kit.arms.image.manifest import architectures
from kit.arms.image.peer_image import Builder, Environment, checked, taken_or_built
from kit.arms.image.recipe import SOURCE_DATE_EPOCH, Recipe, read_recipe
from kit.core.codec import UnreadableError, decode
from kit.core.errors import UsageError
from kit.core.flock import try_lock
from kit.core.private import make_directory
from kit.host import safe_fs
from kit.host.cache_use import mark_used
from kit.host.command import run
from kit.host.durable import publish, read_record, write_record
from kit.host.tarball import local_name, members, plain_name, read_tarball


@dataclass(frozen=True)
class Image:
    """``digest``: SHA-256 of the root filesystem's tarball. ``archive`` (docker save format): the layers of an image
    that has them; without it the root filesystem is imported as a single layer. ``layers``: the archive's digest, ''
    without layers or if an older kit made the image."""

    name: str
    digest: str
    origin: str
    size: int  # bytes of the tarball
    created: float
    rootfs: Path
    archive: Path | None = None
    env: tuple[tuple[str, str], ...] = ()  # set by the image's author, for example PATH
    layers: str = ""
    layers_size: int = 0  # bytes of the archive
    machine: str = ""  # what its programs run on, as uname -m says it; of one that an older kit made, ''

    @property
    def tag(self) -> str:
        return f"kit:{self.digest[:12]}"

    @property
    def config(self) -> bytes:
        """Return its configuration as an image of one layer (OCI Image Format Specification 1.1, config.md)."""
        document = {
            "architecture": architectures()[0],
            "os": "linux",
            "config": {"Env": [f"{key}={value}" for key, value in self.env]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{self.digest}"]},
            "history": [{"created_by": self.origin}],
        }
        return json.dumps(document).encode()


class ImageCache:
    """``images/KEY/`` with ``image.json``, ``rootfs.tar`` and perhaps ``archive.tar``. A key names how it was made."""

    def __init__(self, cache: Path) -> None:
        self.directory = cache / "images"
        self._cache = cache

    def list(self) -> tuple[Image, ...]:
        images = [self._read(path.parent) for path in self.directory.glob("*/image.json")]
        return tuple(sorted(filter(None, images), key=lambda image: -image.created))

    def remove(self, name: str) -> tuple[Image, ...]:
        """Remove images by name or digest prefix. Raises UsageError if none matches."""
        gone = []
        for image in self.list():
            if name == image.name or (len(name) >= 6 and image.digest.startswith(name)):
                safe_fs.remove(image.rootfs.parent)
                # What was unpacked or made of it.
                safe_fs.remove(self._cache / "engines" / f"{image.name}-{image.digest[:12]}")
                if image.name == "guest":
                    safe_fs.remove(self._cache / "guest")
                gone.append(image)
        if not gone:
            raise UsageError(f"no cached image '{name}'", "list them with kit image list")
        return tuple(gone)

    def from_recipe(self, name: str, force: bool = False, tell: Callable[[str], None] = lambda text: None) -> Image:
        recipe = read_recipe(name)

        def build(rootfs: Path, archive: Path) -> Environment:
            tell(f"building image {name} from {recipe.sources}")
            recipe.build(rootfs, archive, self.directory / f"{name}.log")
            return {}

        key = _recipe_key(recipe)
        make = checked(build, name) if force else taken_or_built(key, name, build, tell)
        return self._get(key, name, f"recipe {name}, {recipe.suite}", make, force, tell)

    def from_tarball(self, path: Path) -> Image:
        """Return a root filesystem from a tarball with any compression that tar knows. No device node is unpacked. An
        ordinary user, who could unpack no other user's file either, gets a copy of its entries."""
        key = hashlib.sha256(f"{path.resolve()} {safe_fs.identity(path)}".encode()).hexdigest()[:12]

        def copy(rootfs: Path, archive: Path) -> Environment:
            if os.geteuid() != 0:
                copy_tarball(path, rootfs)
                return {}
            with safe_fs.scratch(rootfs.parent) as scratch, usable(path):
                top = scratch / "root"
                top.mkdir()
                top.chmod(0o755)  # as it stays, where the tarball does not name it: the scratch directory is private
                whole = decompressed(path, scratch / "whole.tar")
                options = ("--numeric-owner", *_without_devices(whole))
                safe_fs.unpack(whole, top, what=f"unpacking {path}", options=options)
                if top.stat().st_mtime >= scratch.stat().st_mtime:  # nor says when it was made
                    os.utime(top, (0, int(SOURCE_DATE_EPOCH)))
                _pack(top, rootfs)
            return {}

        return self.make(f"tarball-{key}", path.name, str(path), copy)

    def from_directory(self, path: Path) -> Image:
        """Return a root filesystem from a directory. It is read each time, since nothing shows whether it has
        changed."""
        check_rootfs(path)

        def pack(rootfs: Path, archive: Path) -> Environment:
            _check_holes(path)
            _pack(path, rootfs)
            return {}

        return self.make(
            f"directory-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}",
            path.name,
            str(path),
            pack,
            force=True,
        )

    def make(
        self,
        key: str,
        name: str,
        origin: str,
        build: Builder,
        force: bool = False,
        tell: Callable[[str], None] = lambda text: None,
    ) -> Image:
        """Return the image with that key, or have ``build(rootfs, archive)`` write its files and return its
        environment.

        The entry is complete or missing, and made once even for parallel callers. Raises UsageError if the kit's own
        directories lead outside in it."""
        return self._get(key, name, origin, checked(build, name), force, tell)

    def _get(self, key: str, name: str, origin: str, build: Builder, force: bool, tell: Callable[[str], None]) -> Image:
        """``build`` has checked its output."""
        target = self.directory / key
        image = None if force else self._read(target)
        if image:
            mark_used(target)
            return image
        make_directory(self.directory)
        with self._alone(key, lambda: tell(f"waiting for another process that makes image {name}")):
            image = None if force else self._read(target)
            return image or self._make(target, name, origin, build)

    @contextmanager
    def _alone(self, key: str, on_wait: Callable[[], None]) -> Iterator[None]:
        """Hold a key by a locked file (flock(2)) beside its directory. The file is removed at the end; a killed holder
        leaves an unlocked one."""
        path = self.directory / f".{key}.lock"
        with ExitStack() as stack:
            while True:
                file = stack.enter_context(path.open("ab"))
                if not try_lock(file.fileno()):
                    on_wait()
                    fcntl.flock(file, fcntl.LOCK_EX)
                with suppress(FileNotFoundError):
                    if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                        break
                file.close()  # the former holder has removed it: others lock a new one
            stack.callback(path.unlink, missing_ok=True)
            yield

    def _make(self, target: Path, name: str, origin: str, build: Builder) -> Image:
        with safe_fs.scratch(self.directory) as scratch:
            new = scratch / "image"
            new.mkdir()
            rootfs, archive = new / "rootfs.tar", new / "archive.tar"
            env = build(rootfs, archive)
            layered = archive.exists()
            image = Image(
                name,
                _sha256(rootfs),
                origin,
                rootfs.stat().st_size,
                time.time(),
                target / "rootfs.tar",
                target / "archive.tar" if layered else None,
                tuple(sorted(env.items())),
                _sha256(archive) if layered else "",
                archive.stat().st_size if layered else 0,
                platform.machine(),
            )
            facts = {key: value for key, value in asdict(image).items() if key not in ("rootfs", "archive")}
            write_record(new / "image.json", facts)
            safe_fs.remove(target)
            publish(new, target)
        return image

    def _read(self, directory: Path) -> Image | None:
        """Return None if the image is missing or incomplete: then it is rebuilt."""
        facts = read_record(dict[str, Any], directory / "image.json")
        rootfs, archive = directory / "rootfs.tar", directory / "archive.tar"
        try:
            files = {"rootfs": str(rootfs), "archive": str(archive) if archive.exists() else None}
            image = decode(Image, {**(facts or {}), **files})
            return image if rootfs.stat().st_size == image.size else None
        except (OSError, UnreadableError):
            return None


def check_rootfs(path: Path) -> None:
    """Check that a directory may be a root filesystem. Raises UsageError."""
    if not (path / "bin").exists() and not (path / "usr").exists():
        raise UsageError(f"{path} is not a root filesystem: it has neither bin nor usr", "name its top directory")


def _recipe_key(recipe: Recipe) -> str:
    return f"{recipe.name}-{recipe.digest[:12]}"


#: Access and change times differ between copies of the same files (pax headers, POSIX.1-2001).
_ALIKE = ("--sort=name", "--format=posix", "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime")
_KEEP = ("--numeric-owner", *safe_fs.TAR_ATTRIBUTES)  # owners and attributes as they are


_LEFT_OUT = tuple(f"--exclude=./{name}/*" for name in ("dev", "proc", "sys"))


def _check_holes(directory: Path) -> None:
    """Raises UsageError if what is packed has no relation to what is on the disk: holes become zeros."""
    used, length = (
        int(run(["du", "-sx", form, *_LEFT_OUT, "."], cwd=directory, what=f"size of {directory}").split()[0])
        for form in ("-B1", "-b")
    )
    if length > Allowance.of(used).remaining:
        raise UsageError(
            f"{directory}: {length >> 30} GiB of files take {used >> 20} MiB, and their holes would become zeros",
            "remove its sparse files",
        )


def _pack(directory: Path, destination: Path) -> None:
    words: list[str | Path] = [
        "tar",
        *_KEEP,
        *_ALIKE,
        "--one-file-system",
        *_LEFT_OUT,
        "-C",
        directory,
        "-cf",
        destination,
        ".",
    ]
    run(words, what=f"packing {directory}")


def unpack(image: Image, directory: Path) -> None:
    """Unpack the root filesystem into a plain directory, owners and attributes kept; device nodes left out."""
    directory.mkdir(parents=True)
    with usable(image.rootfs, f"run kit image rm {image.name}, then try again"):
        options = (*_KEEP, *_without_devices(image.rootfs), "--exclude=./dev/*")
    safe_fs.unpack(image.rootfs, directory, what=f"unpacking image {image.name}", options=options)


#: Their names are words of one command line.
_MOST_DEVICES = 1000


def _without_devices(tarball: Path) -> list[str]:
    """Return tar's options that leave out device nodes, and hard links to them. Raises DAMAGED, also for a tarball that
    is beyond the bounds."""
    devices: dict[str, str] = {}
    with read_tarball(tarball) as tar:
        for member in members(tar):
            if member.ischr() or member.isblk() or (member.islnk() and plain_name(member.linkname) in devices):
                devices[plain_name(member.name)] = local_name(member.name)
                if len(devices) > _MOST_DEVICES:
                    raise ValueError(f"it has more than {_MOST_DEVICES} device nodes")
    exclusions = [f"--exclude={name}" for name in devices.values()]
    return ["--anchored", "--no-wildcards", *exclusions, "--no-anchored", "--wildcards"] if exclusions else []


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
