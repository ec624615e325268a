"""The probe as a static program, compiled once on this machine."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from kit.command import require, run

_SOURCE = Path(__file__).with_name("probe.c")


def probe_digest() -> str:
    return hashlib.sha256(_SOURCE.read_bytes()).hexdigest()


def probe_binary(cache: Path) -> Path:
    """The path of the compiled probe. Raises MachineError without a C compiler."""
    target = cache / "probe" / f"kit-probe-{probe_digest()[:12]}"
    if not target.exists():
        require("cc")
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f"{target.name}.{os.getpid()}")
        run(["cc", "-O2", "-static", "-o", new, _SOURCE], what="compiling the probe (cc, libc6-dev)")
        new.replace(target)
    return target


def spin(probe: Path) -> float:
    """Seconds that a fixed amount of arithmetic takes now, outside all arms: the machine's speed at this moment."""
    return int(run([probe, "spin"])) / 1e9
