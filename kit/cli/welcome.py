"""``kit`` alone: this machine's abilities, and the command to try next."""

from __future__ import annotations

import textwrap
from pathlib import Path

from kit.arms.engines.installed import installed_docker, version_of
from kit.arms.filesystem import bundled
from kit.host.command import which
from kit.host.kernel_part import can_load, filesystem_part, is_ready
from kit.host.machine import Host, read_host
from kit.model.default import DEFAULT_ENGINE
from kit.model.drivers import IMAGE_STORE, KernelPart, drivers

#: The program of each engine, as people call the engine.
_ENGINES = {"dockerd": "Docker", "containerd": "containerd", "podman": "Podman"}

_NEXT = """\
  kit compare smoke                    check the set-up (1 min)
  kit compare kernel:short             which driver for compiling? (10 min)
  kit compare --source . -- make -j8   … for the build in this directory
kit --help lists the commands; kit help arms shows what can be compared."""


def welcome() -> str:
    """Return eight lines at most, of 100 columns; nothing is started or mounted."""
    host = read_host()
    here = textwrap.fill(f"On this machine: {_here(host)}.", 100, subsequent_indent="  ")
    return f"Measures what Docker storage drivers cost a build.\n\n{here}\n{_NEXT}"


def _here(host: Host) -> str:
    engines = [f"{name} {version}" for program, name in _ENGINES.items() if (version := _version(program))]
    lacking = [driver.name for driver in drivers(DEFAULT_ENGINE) if driver.kernel and not _has(driver.kernel)]
    parts = (
        ", ".join(engines) or "no Docker (bare and union arms only)",
        ", ".join(_filesystems()),
        "root" if host.root else "not root (use sudo)",
        *([f"no {', '.join(lacking)} in this kernel"] if lacking else []),
    )
    return "; ".join(parts)


def _version(program: str) -> str:
    """Return major and minor version, and a Docker's image store; "" for a program that is missing."""
    if program == "dockerd":
        docker = installed_docker()
        store = " (image store)" if docker.driver == IMAGE_STORE else ""
        return f"{_short(docker.version)}{store}"
    path = which(program)
    return _short(version_of(Path(path))) if path else ""


def _short(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _has(part: KernelPart) -> bool:
    return is_ready(part) or can_load(part)


def _filesystems() -> list[str]:
    """Return the types of the bundled profiles that the kernel has and whose mkfs is installed."""
    types = dict.fromkeys(profile.type for profile in bundled().values())
    return [name for name in types if which(f"mkfs.{name}") and _has(filesystem_part(name))]
