"""Settings of the machine that change how steady its figures are. A reboot gives all of them back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kit.core.errors import MachineError, said_by_system

_CPU = "sys/devices/system/cpu"
AS_ROOT = "run as root: sudo kit …"


class Setting(Protocol):
    """One thing that makes figures noisier where it is set otherwise. A machine has it in several places: the files of
    its CPUs, or units."""

    @property
    def name(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def wanted(self) -> str: ...
    def find(self, root: Path) -> Iterator[Reading]:
        """Return where this machine has it, below a root directory."""

    def noisy(self, value: str) -> bool: ...
    def write(self, place: str, value: str) -> None:
        """Raises MachineError."""


@dataclass(frozen=True)
class Reading:
    """A setting's value in one place. ``label``: what people read of it."""

    setting: Setting
    place: str
    value: str
    label: str

    @property
    def noisy(self) -> bool:
        return self.setting.noisy(self.value)


@dataclass(frozen=True)
class KernelSetting:
    """A setting in files of the kernel. ``files``: a pattern below the root directory."""

    name: str
    files: str
    wanted: str
    is_noisy: Callable[[str], bool]  # of the current value
    why: str

    def find(self, root: Path) -> Iterator[Reading]:
        for path in sorted(root.glob(self.files)):
            value = read_value(path)
            yield Reading(self, str(path), value, value)

    def noisy(self, value: str) -> bool:
        return self.is_noisy(value)

    def write(self, place: str, value: str) -> None:
        try:
            Path(place).write_text(value)
        except PermissionError as error:
            raise MachineError(f"{said_by_system(error)}; it can't be set to {value}", AS_ROOT) from None
        except OSError as error:
            fix = "see whether the firmware or a container forbids it"
            raise MachineError(f"{place} can't be set to {value}: {error.strerror}", fix) from None


#: The governor and Intel's turbo are what pyperf's `system tune` sets, too.
KERNEL_SETTINGS = (
    KernelSetting(
        "CPU governor", f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor", "performance",
        lambda value: value != "performance", "the clock follows the load, so equal runs take different times",
    ),
    KernelSetting(
        "turbo (Intel)", f"{_CPU}/intel_pstate/no_turbo", "1",
        lambda value: value == "0", "the clock depends on temperature and on busy neighbours",
    ),
    KernelSetting(
        "turbo", f"{_CPU}/cpufreq/boost", "0",
        lambda value: value == "1", "the clock depends on temperature and on busy neighbours",
    ),
    KernelSetting(
        "huge pages", "sys/kernel/mm/transparent_hugepage/enabled", "madvise",
        lambda value: value == "always", "the kernel compacts memory at moments that no run controls",
    ),
)  # fmt: skip


def read_value(path: Path) -> str:
    """Return the chosen value: the word in brackets where the kernel lists all. Raises OSError."""
    text = path.read_text().strip()
    chosen = re.search(r"\[(\S+)\]", text)
    return chosen[1] if chosen else text
