"""Units of systemd that disturb runs: they are stopped, not disabled, so a reboot starts them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import MachineError
from kit.host.command import CommandError, run
from kit.host.setting import AS_ROOT, Reading

_ACTIVE, _INACTIVE = "active", "inactive"
_RUNNING = (_ACTIVE, "activating", "reloading", "refreshing")
#: Exists where systemd is the init process (sd_booted(3)).
_BOOTED = "run/systemd/system"


@dataclass(frozen=True)
class UnitSetting:
    """A setting that is made of units, which are wanted inactive."""

    name: str
    units: tuple[str, ...]
    why: str
    wanted: str = _INACTIVE

    def find(self, root: Path) -> Iterator[Reading]:
        for shown in _show(*self.units) if (root / _BOOTED).is_dir() else ():
            if shown["LoadState"] != "not-found":
                yield Reading(self, shown["Id"], _state(shown), _label(shown))

    def noisy(self, value: str) -> bool:
        return value == _ACTIVE

    def write(self, place: str, value: str) -> None:
        """Start or stop a unit, and wait until it has."""
        verb = "start" if value == _ACTIVE else "stop"
        try:
            run(["systemctl", verb, place])
        except CommandError as error:
            raise MachineError(f"can't {verb} {place}: {error.said}", AS_ROOT) from None


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
    wanted = "--property=Id,LoadState,UnitFileState,ActiveState,NextElapseUSecRealtime"
    with suppress(CommandError, MachineError):
        for block in run(["systemctl", "show", wanted, *units]).split("\n\n"):
            yield dict(line.split("=", 1) for line in block.splitlines() if "=" in line)


def _state(shown: Mapping[str, str]) -> str:
    """Return ``active`` or ``inactive``, and ``disabled`` or ``masked`` for what its owner does not want at all."""
    if shown["LoadState"] != "loaded":
        return shown["LoadState"]
    if shown["UnitFileState"] == "disabled":
        return "disabled"
    return _ACTIVE if shown["ActiveState"] in _RUNNING else _INACTIVE


def _label(shown: Mapping[str, str]) -> str:
    """Return ``fstrim.timer (next: Mon 2026-11-30 01:12:30 UTC)`` for a running timer."""
    state, when = _state(shown), shown.get("NextElapseUSecRealtime")
    if state != _ACTIVE:
        return state
    return f"{shown['Id']} (next: {when})" if when else shown["Id"]
