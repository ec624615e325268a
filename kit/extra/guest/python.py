"""The disk with the kit and its required packages, for the guest's own Python."""

from __future__ import annotations

import compileall
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import kit
from kit.core.errors import MachineError, RunError
from kit.core.paths import APP, resource
from kit.extra.guest.disk import cached_disk
from kit.host.command import python_module, run
from kit.host.durable import publish
from kit.host.safe_fs import scratch

#: The version of Debian 12, the guest's root filesystem; wheels must fit it and its C library.
_VERSION = (3, 11)
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")


def python_disk(directory: Path, tell: Callable[[str], None]) -> Path:
    """Raises MachineError if the packages are unavailable."""
    pinned = requirements()
    packages = _packages(directory, pinned, tell)

    def fill(scratch: Path) -> Path:
        content = scratch / "python"
        run(["cp", "-al", packages, content])
        ignore = shutil.ignore_patterns("__pycache__", "_data")
        shutil.copytree(Path(kit.__file__).parent, content / "kit", ignore=ignore)
        for kind in ("scenarios", "images"):
            shutil.copytree(resource(kind), content / "kit/_data" / kind, ignore=ignore)
        _compile(content / "kit")
        return content

    return cached_disk(directory, "python", _digest(pinned), fill, 0, tell)


def requirements() -> tuple[str, ...]:
    """Return the kit's requirements from its metadata, in the installed versions if the guest's Python is this one."""
    texts = [text for text in metadata.requires(APP) or () if "extra ==" not in text]
    if sys.version_info[:2] != _VERSION:
        return tuple(sorted(texts))
    names = [re.split(r"[^\w.-]", text)[0] for text in texts]
    return tuple(sorted(f"{name}=={metadata.version(name)}" for name in names))


def _packages(directory: Path, pinned: tuple[str, ...], tell: Callable[[str], None]) -> Path:
    target = directory / f"packages-{hashlib.sha256(repr(pinned).encode()).hexdigest()[:16]}"
    if target.is_dir():
        return target
    tell("fetching the packages that the kit needs in a guest (once)")
    with scratch(directory) as workspace:
        _fetch(workspace / "packages", pinned)
        publish(workspace / "packages", target)
    return target


def _fetch(new: Path, pinned: tuple[str, ...]) -> None:
    words = ["--quiet", "--target", str(new), "--only-binary=:all:", "--implementation=cp", "--no-compile"]
    words += [f"--python-version={'.'.join(map(str, _VERSION))}", *(f"--platform={name}" for name in _PLATFORMS)]
    settings = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_"))}
    try:
        run(python_module("pip", "install", *words, *pinned), env=settings, what="pip install")
    except RunError as error:
        raise MachineError(
            f"the kit's packages can't be downloaded for the guest: {error.message}",
            "provide pip and a package index, or a mirror of it",
        ) from None
    _compile(new)


def _compile(directory: Path) -> None:
    """Compile bytecode, as its disk is read-only; useful if the guest's Python has this version."""
    if sys.version_info[:2] == _VERSION:
        compileall.compile_dir(directory, quiet=2, invalidation_mode=None, stripdir=str(directory.parent))


def _digest(pinned: tuple[str, ...]) -> str:
    digest = hashlib.sha256(repr(pinned).encode())
    for top in (Path(kit.__file__).parent, resource("scenarios"), resource("images")):
        for path in sorted(top.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(top)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
