"""The drivers and filesystems that work on this machine, as `kit doctor` has found."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from kit import __version__
from kit.core.codec import decode_json
from kit.core.paths import Paths
from kit.core.private import make_private
from kit.host.command import python_module, python_path, run
from kit.host.durable import read_record, write_record
from kit.host.machine import read_host
from kit.session.trial import Diagnosis


@dataclass(frozen=True)
class Working:
    """Names of drivers with their engines, ``docker/overlay2``, and names of filesystems."""

    drivers: tuple[str, ...]
    filesystems: tuple[str, ...]


def known_working(paths: Paths) -> Working | None:
    """Return the cached result for this kernel and this kit; None if it is missing."""
    return read_record(Working, paths.cache / "fleet" / _name())


def examine_machine(paths: Paths, home: str, tell: Callable[[str], None]) -> Working:
    """Test everything, and cache the result. Raises KitError."""
    tell("checks the machine, as kit doctor does")
    env = {**python_path(), **({"KIT_HOME": home} if home else {})}
    report = run(python_module("kit", "doctor", "--json", "--wait"), env=env, what="kit doctor")
    working = read_working(report)
    make_private(paths.cache)
    make_private(paths.cache / "fleet")
    write_record(paths.cache / "fleet" / _name(), working)
    return working


@dataclass(frozen=True)
class _Document:
    schema: int
    diagnoses: tuple[Diagnosis, ...]


def read_working(report: str) -> Working:
    """Return what works according to the JSON of kit doctor. Raises UnreadableError."""
    diagnoses = [diagnosis for diagnosis in decode_json(_Document, report).diagnoses if diagnosis.works]
    drivers = [diagnosis.name if diagnosis.kind == "driver" else f"union/{diagnosis.name}" for diagnosis in diagnoses
               if diagnosis.kind in ("driver", "union")]  # fmt: skip
    return Working(tuple(drivers), tuple(diagnosis.name for diagnosis in diagnoses if diagnosis.kind == "filesystem"))


def _name() -> str:
    return f"works-{__version__}-{hashlib.sha256(read_host().kernel.encode()).hexdigest()[:12]}.json"
