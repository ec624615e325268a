"""What is kept of a trial that is dear to make: its answer, for as long as what it hangs on is the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kit.host.durable import read_record, write_record

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Trial:
    """``reason``: why it does not work, '' where it does. ``dear``: it took so long that nobody wants it made again."""

    reason: str = ""
    dear: bool = True


@dataclass(frozen=True)
class _Kept:
    where: str
    answer: Trial


def circumstances(device: Path, *digests: str) -> str:
    """What the answer hangs on: the boot of the host, the device as it is now, and what it is tried with. A device has
    another time of change after chmod, and is a new one when its modules have been loaded again. Raises OSError."""
    found = device.stat()
    return " ".join([_BOOT.read_text().strip(), f"{found.st_dev}:{found.st_ino}:{found.st_ctime_ns}", *digests])


def answer(kept: Path, where: str, attempt: Callable[[], Trial]) -> Trial:
    """The one kept for these circumstances, else a new one. A no that came at once is not kept: what mends it may leave
    no trace, as where another hypervisor has ended that had the CPU's extensions."""
    known = read_record(_Kept, kept)
    if known and known.where == where:
        return known.answer
    found = attempt()
    if not found.reason or found.dear:
        write_record(kept, _Kept(where, found))
    return found
