"""The probe as a static program, compiled once on this machine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from kit.host.command import require, run
from kit.host.durable import publish
from kit.host.safe_fs import scratch

_SOURCE = Path(__file__).with_name("probe.c")


def probe_digest() -> str:
    return hashlib.sha256(_SOURCE.read_bytes()).hexdigest()


def probe_binary(cache: Path) -> Path:
    """Return the path of the compiled probe. Raises MachineError without a C compiler."""
    target = cache / "probe" / f"kit-probe-{probe_digest()[:12]}"
    if not target.exists():
        require("cc")
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch(target.parent) as directory:
            new = directory / target.name
            run(["cc", "-O2", "-static", "-o", new, _SOURCE], what="compiling the probe (cc, libc6-dev)")
            publish(new, target)
    return target


@dataclass(frozen=True)
class Spin:
    """Seconds that fixed work takes now, outside all arms. ``arithmetic`` follows the clock speed. ``memory`` (page
    faults and dependent loads) follows the load of caches and memory."""

    arithmetic: float
    memory: float


def spin(probe: Path) -> Spin:
    """Measure the machine's speed at this moment; takes about a twentieth of a second."""
    arithmetic, memory = (int(word) / 1e9 for word in run([probe, "spin"]).split())
    return Spin(arithmetic, memory)
