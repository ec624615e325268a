"""The disk with the kit itself and the packages it needs, for the guest's own Python."""

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
from kit.guest.disk import cached_disk
from kit.host.beneath import remove
from kit.host.command import run
from kit.host.durable import publish

#: The version of Debian 12, of which the guest's root filesystem is; wheels for it and for a C library that old.
_VERSION = (3, 11)
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")


def python_disk(directory: Path, tell: Callable[[str], None]) -> Path:
    """Raises MachineError where the packages can't be had."""
    wanted = requirements()
    packages = _packages(directory, wanted, tell)

    def fill(scratch: Path) -> Path:
        content = scratch / "python"
        run(["cp", "-al", packages, content])
        ignore = shutil.ignore_patterns("__pycache__", "_data")
        shutil.copytree(Path(kit.__file__).parent, content / "kit", ignore=ignore)
        for kind in ("scenarios", "images"):
            shutil.copytree(resource(kind), content / "kit/_data" / kind, ignore=ignore)
        _compile(content / "kit")
        return content

    return cached_disk(directory, "python", _digest(wanted), fill, 0, tell)


def requirements() -> tuple[str, ...]:
    """What the kit needs, as its metadata says; in the versions that are here, where the guest's Python is this one."""
    found = [text for text in metadata.requires(APP) or () if "extra ==" not in text]
    if sys.version_info[:2] != _VERSION:
        return tuple(sorted(found))
    names = [re.split(r"[^\w.-]", text)[0] for text in found]
    return tuple(sorted(f"{name}=={metadata.version(name)}" for name in names))


def _packages(directory: Path, wanted: tuple[str, ...], tell: Callable[[str], None]) -> Path:
    target = directory / f"packages-{hashlib.sha256(repr(wanted).encode()).hexdigest()[:16]}"
    if target.is_dir():
        return target
    tell("fetching the packages that the kit needs in a guest (once)")
    new = target.with_name(f".new-{target.name}")
    remove(new)
    words = ["--quiet", "--target", str(new), "--only-binary=:all:", "--implementation=cp", "--no-compile"]
    words += [f"--python-version={'.'.join(map(str, _VERSION))}", *(f"--platform={name}" for name in _PLATFORMS)]
    settings = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_"))}
    try:
        run([sys.executable, "-m", "pip", "install", *words, *wanted], env=settings, what="pip install")
    except RunError as error:
        raise MachineError(
            f"the kit's packages can't be had for the guest: {error.message}",
            "pip and a package index, or a mirror of it",
        ) from None
    _compile(new)
    publish(new, target)
    return target


def _compile(directory: Path) -> None:
    """Bytecode, as its disk is only read; it is of use where the guest's Python is this one's version."""
    if sys.version_info[:2] == _VERSION:
        compileall.compile_dir(directory, quiet=2, invalidation_mode=None, stripdir=str(directory.parent))


def _digest(wanted: tuple[str, ...]) -> str:
    digest = hashlib.sha256(repr(wanted).encode())
    for top in (Path(kit.__file__).parent, resource("scenarios"), resource("images")):
        for path in sorted(top.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(top)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
