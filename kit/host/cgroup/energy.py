"""The energy that the machine's processors use, from Linux's counters (Documentation/power/powercap/powercap.rst)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from kit.core.errors import said_by_system

DOMAINS = Path("/sys/class/powercap")
#: A whole processor. The domains of its cores are in it; that of the platform (psys) includes it.
_PACKAGE = re.compile(r"package-\d+(-die-\d+)?")


class EnergyMeter:
    """The counters of all processors, below a directory in powercap's layout.

    A counter begins again at zero after some minutes of full power. The meter counts on if it is read in between:
    65 kJ, the least known range, are two minutes of 500 W."""

    def __init__(self, domains: Path = DOMAINS) -> None:
        self._lock = threading.Lock()
        self._counters = [_Counter(path) for path in _packages(domains)]
        self.source = ", ".join(counter.name for counter in self._counters)
        #: Why nothing can be read, or ''.
        self.reason = ""
        self.joules()

    def joules(self) -> float | None:
        """Return the energy used since the meter was made. None if a processor's can't be read."""
        with self._lock:
            try:
                return sum([counter.advance() for counter in self._counters]) / 1e6 if self._counters else None
            except OSError as error:
                self.reason = said_by_system(error)
                return None


@dataclass
class _Counter:
    """One counter; ``used``: µJ since its first reading."""

    domain: Path
    used: int = 0
    _last: int | None = field(default=None, repr=False)
    _largest: int = field(default=0, repr=False)

    @property
    def name(self) -> str:
        return _name(self.domain)

    def advance(self) -> int:
        now = int((self.domain / "energy_uj").read_text())
        if not self._largest:  # it does not change, and each slice reads the counter
            self._largest = int((self.domain / "max_energy_range_uj").read_text())
        self.used += (now - (now if self._last is None else self._last)) % (self._largest + 1)
        self._last = now
        return self.used


def _packages(domains: Path) -> Iterator[Path]:
    """Return the directory of each package once: a second one (intel-rapl-mmio) has the same counters."""
    names: set[str] = set()
    for path in sorted(domains.glob("*:*"), key=lambda path: (len(path.name.split(":")[0]), path.name)):
        name = _name(path)
        if _PACKAGE.fullmatch(name) and name not in names:
            names.add(name)
            yield path


def _name(domain: Path) -> str:
    file = domain / "name"
    return file.read_text().strip() if file.exists() else ""


@lru_cache
def machine_energy() -> EnergyMeter:
    """Return this machine's meter."""
    return EnergyMeter()
