"""Caches the answer of an expensive test, for as long as its circumstances are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kit.host.durable import read_record, write_record

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Trial:
    """``reason``: why the test failed, '' if it succeeded. ``dear``: the test took too long to be repeated."""

    reason: str = ""
    dear: bool = True


@dataclass(frozen=True)
class _Kept:
    where: str
    answer: Trial


def circumstances(device: Path, *digests: str) -> str:
    """Return the circumstances of the answer: the host's boot, the device's state, and the test's inputs. A device has
    another change time after chmod, and is a new one after its modules were reloaded. Raises OSError."""
    info = device.stat()
    return " ".join([_BOOT.read_text().strip(), f"{info.st_dev}:{info.st_ino}:{info.st_ctime_ns}", *digests])


def answer(record_file: Path, where: str, attempt: Callable[[], Trial]) -> Trial:
    """Return the cached answer for these circumstances, else a new one. A quick failure is not cached: its fix may
    leave no trace, for example the end of another hypervisor that used the CPU's extensions."""
    cached = read_record(_Kept, record_file)
    if cached and cached.where == where:
        return cached.answer
    trial = attempt()
    if not trial.reason or trial.dear:
        write_record(record_file, _Kept(where, trial))
    return trial
