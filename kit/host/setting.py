"""Settings of the machine that change how steady its figures are, each with the command that sets it for measuring.
A reboot gives all of them back: units of systemd are stopped, not disabled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kit.core.errors import MachineError
from kit.host.command import CommandError, run

_CPU = "sys/devices/system/cpu"
_ACTIVE, _INACTIVE = "active", "inactive"
_RUNNING = (_ACTIVE, "activating", "reloading", "refreshing")
#: Exists where systemd is the init process (sd_booted(3)).
_BOOTED = "run/systemd/system"


class Setting(Protocol):
    """One thing that makes figures noisier where it is set otherwise. A machine has it in several places: the files of
    its CPUs, or units."""

    @property
    def name(self) -> str: ...
    @property
    def why(self) -> str: ...
    def find(self, root: Path) -> Iterator[Reading]:
        """Return where this machine has it, below a root directory."""

    def noisy(self, value: str) -> bool: ...
    def fix(self, places: Sequence[str]) -> str:
        """Return the command that sets it in these places."""


@dataclass(frozen=True)
class Reading:
    """A setting's value in one place."""

    setting: Setting
    place: str
    value: str
    label: str  # what people read of it

    @property
    def noisy(self) -> bool:
        return self.setting.noisy(self.value)


@dataclass(frozen=True)
class KernelSetting:
    """A setting in files of the kernel."""

    name: str
    files: str  # a pattern below the root directory
    quiet_value: str
    is_noisy: Callable[[str], bool]  # of the current value
    why: str

    def find(self, root: Path) -> Iterator[Reading]:
        for path in sorted(root.glob(self.files)):
            value = read_value(path)
            yield Reading(self, str(path), value, value)

    def noisy(self, value: str) -> bool:
        return self.is_noisy(value)

    def fix(self, places: Sequence[str]) -> str:
        return f"echo {self.quiet_value} | sudo tee /{self.files}"


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


@dataclass(frozen=True)
class UnitSetting:
    """A setting that is made of units, which disturb runs."""

    name: str
    units: tuple[str, ...]
    why: str

    def find(self, root: Path) -> Iterator[Reading]:
        for properties in _show(*self.units) if (root / _BOOTED).is_dir() else ():
            if properties["LoadState"] != "not-found":
                yield Reading(self, properties["Id"], _state(properties), _label(properties))

    def noisy(self, value: str) -> bool:
        return value == _ACTIVE

    def fix(self, places: Sequence[str]) -> str:
        return f"sudo systemctl stop {' '.join(places)}"


#: pyperf's `system tune` stops irqbalance, too. Not unattended-upgrades.service: it waits for the shutdown, and may
#: install upgrades when it is stopped; apt-daily-upgrade.timer is what starts them.
UNIT_SETTINGS = (
    UnitSetting(
        "timers",
        tuple(
            f"{name}.timer"
            for name in (
                "anacron", "apport-autoreport", "apt-daily", "apt-daily-upgrade", "backup-rpmdb", "btrfs-balance",
                "btrfs-defrag", "btrfs-scrub", "btrfs-trim", "dnf-automatic", "dnf-makecache", "dnf5-automatic",
                "dnf5-makecache", "dpkg-db-backup", "e2scrub_all", "fstrim", "fwupd-refresh", "locate", "logrotate",
                "man-db", "mdcheck_continue", "mdcheck_start", "mlocate-updatedb", "motd-news", "plocate-updatedb",
                "raid-check", "snapd.snap-repair", "snapper-cleanup", "snapper-timeline", "sysstat-collect",
                "sysstat-summary", "systemd-tmpfiles-clean", "ua-timer", "update-notifier-download",
                "update-notifier-motd", "xfs_scrub_all",
            )
        ),
        "the distribution's jobs use CPU and disk when they please",
    ),
    UnitSetting("IRQ balance", ("irqbalance.service",), "interrupts move to other CPUs within a round"),
)  # fmt: skip


def _show(*units: str) -> Iterator[Mapping[str, str]]:
    """Return the properties of each unit, also of one that does not exist; nothing where no manager answers, as in some
    containers."""
    property_option = "--property=Id,LoadState,UnitFileState,ActiveState,NextElapseUSecRealtime"
    with suppress(CommandError, MachineError):
        for block in run(["systemctl", "show", property_option, *units]).split("\n\n"):
            yield dict(line.split("=", 1) for line in block.splitlines() if "=" in line)


def _state(properties: Mapping[str, str]) -> str:
    """Return ``active`` or ``inactive``, and ``disabled`` or ``masked`` for what its owner does not want at all."""
    if properties["LoadState"] != "loaded":
        return properties["LoadState"]
    if properties["UnitFileState"] == "disabled":
        return "disabled"
    return _ACTIVE if properties["ActiveState"] in _RUNNING else _INACTIVE


def _label(properties: Mapping[str, str]) -> str:
    """Return ``fstrim.timer (next: Mon 2026-11-30 01:12:30 UTC)`` for a running timer."""
    state, when = _state(properties), properties.get("NextElapseUSecRealtime")
    if state != _ACTIVE:
        return state
    return f"{properties['Id']} (next: {when})" if when else properties["Id"]


SETTINGS: tuple[Setting, ...] = (*KERNEL_SETTINGS, *UNIT_SETTINGS)


def read_settings(root: Path = Path("/")) -> Iterator[Reading]:
    """Return each setting that this machine has. A virtual machine has mostly no CPU frequencies."""
    for setting in SETTINGS:
        yield from setting.find(root)
