"""The probe as a static program: the one that came with the kit, or one compiled on this machine, once."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.core.private import make_directory
from kit.core.trusted import open_believed
from kit.host.command import require, run
from kit.host.durable import publish
from kit.host.mounts import check_runs_programs
from kit.host.safe_fs import scratch

_SOURCE = Path(__file__).with_name("probe.c")
#: clang unrolls the spin and then computes several of its steps at once: it would be too short to show a clock's speed.
_FLAGS = ("-O2", "-fno-unroll-loops", "-static", "-s")


def probe_digest() -> str:
    return hashlib.sha256(_SOURCE.read_bytes()).hexdigest()


def program_name(machine: str) -> str:
    """Return the file name of the program for a machine, named as uname does. The name contains the source's digest, so
    that no program of another source is used."""
    return f"kit-probe-{probe_digest()[:12]}-{machine}"


def compile_probe(target: Path, compiler: Sequence[str] = ("cc",)) -> None:
    """Compile the program. Raises MachineError without this compiler, RunError if it fails."""
    require(compiler[0])
    run([*compiler, *_FLAGS, "-o", target, _SOURCE], what="compiling the probe (cc, libc6-dev)")


def probe_binary(cache: Path) -> Path:
    """Return the path of the program in the cache. A wheel has it beside its source (hatch_build.py); otherwise it is
    compiled. Raises MachineError without a C compiler, or if no program in the cache can be run."""
    name = program_name(os.uname().machine)
    target, shipped = cache / "probe" / name, _SOURCE.with_name(name)
    if not target.exists():
        make_directory(target.parent)
        with scratch(target.parent) as directory:
            new = directory / name
            if shipped.is_file():
                shutil.copyfile(shipped, new)
            else:
                compile_probe(new)
            new.chmod(0o755)  # whatever the umask is: users of containers run it
            publish(new, target)
    open_believed(target).close()  # root runs it
    check_runs_programs(target.parent, str(cache), "set KIT_HOME to a directory on another filesystem")
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
