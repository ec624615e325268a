"""Settings of the kernel that change how fast the machine is while it measures. All of them live until the reboot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_CPU = "sys/devices/system/cpu"


@dataclass(frozen=True)
class KernelSetting:
    """One thing that makes figures noisier where it is set otherwise."""

    name: str
    files: str  # a pattern below the root directory
    wanted: str
    noisy: Callable[[str], bool]  # of the current value
    why: str


#: The governor and Intel's turbo are what pyperf's `system tune` sets, too.
SETTINGS = (
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


@dataclass(frozen=True)
class Reading:
    """The value of one file of a setting."""

    setting: KernelSetting
    path: Path
    value: str

    @property
    def noisy(self) -> bool:
        return self.setting.noisy(self.value)


def read_settings(root: Path = Path("/")) -> Iterator[Reading]:
    """Return each setting that this machine has. A virtual machine has mostly no CPU frequencies."""
    for setting in SETTINGS:
        for path in sorted(root.glob(setting.files)):
            yield Reading(setting, path, read_value(path))


def read_value(path: Path) -> str:
    """Return the chosen value: the word in brackets where the kernel lists all. Raises OSError."""
    text = path.read_text().strip()
    chosen = re.search(r"\[(\S+)\]", text)
    return chosen[1] if chosen else text
