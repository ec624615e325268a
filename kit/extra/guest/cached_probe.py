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
    found = device.stat()
    return " ".join([_BOOT.read_text().strip(), f"{found.st_dev}:{found.st_ino}:{found.st_ctime_ns}", *digests])


def answer(kept: Path, where: str, attempt: Callable[[], Trial]) -> Trial:
    """Return the cached answer for these circumstances, else a new one. A quick failure is not cached: its fix may
    leave no trace, for example the end of another hypervisor that used the CPU's extensions."""
    known = read_record(_Kept, kept)
    if known and known.where == where:
        return known.answer
    found = attempt()
    if not found.reason or found.dear:
        write_record(kept, _Kept(where, found))
    return found
