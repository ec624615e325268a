"""Sets the machine up for measuring, and gives back what was before. The record of it is durable before the first
setting changes, so that a killed kit can be undone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import RunError
from kit.core.private import make_private
from kit.host.durable import read_record, write_record
from kit.host.recovery.process_id import Owner
from kit.host.setting import KERNEL_SETTINGS, Reading, Setting
from kit.host.unit import UNIT_SETTINGS

SETTINGS: tuple[Setting, ...] = (*KERNEL_SETTINGS, *UNIT_SETTINGS)


def read_settings(root: Path = Path("/")) -> Iterator[Reading]:
    """Return each setting that this machine has. A virtual machine has mostly no CPU frequencies."""
    for setting in SETTINGS:
        yield from setting.find(root)


@dataclass(frozen=True)
class SettingChange:
    """``place``: the path of a file, or the name of a unit."""

    place: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.place}: {self.before} → {self.after}"


@dataclass(frozen=True)
class Tuned:
    """What was changed since the machine started as ``boot``."""

    boot: str
    changes: tuple[SettingChange, ...]


@dataclass(frozen=True)
class Restored:
    back: tuple[SettingChange, ...]  # from the kit's value to the one before
    left: tuple[str, ...]  # why a setting was not given back
    rebooted: bool = False


class Tuning:
    """The settings below ``root``, and the record beside the kit's journals."""

    def __init__(self, state: Path, root: Path = Path("/"), boot: str = "") -> None:
        """``boot``: the name of the time since the machine started, by default the kernel's."""
        self._record = state / "tuned.json"
        self._root = root
        self._boot = boot or Owner.me().boot

    def plan(self) -> tuple[SettingChange, ...]:
        """Return what ``apply`` would change."""
        return tuple(_change(reading) for reading in read_settings(self._root) if reading.noisy)

    def apply(self) -> tuple[SettingChange, ...]:
        """Set what is noisy, and return it. A setting that an earlier call changed keeps its first value in the record.
        Raises MachineError for a setting that the system refuses: those before it are set, and can be given back."""
        readings = [reading for reading in read_settings(self._root) if reading.noisy]
        if not readings:
            return ()
        changes = tuple(map(_change, readings))
        earlier = self._read()
        kept = earlier.changes if earlier and earlier.boot == self._boot else ()
        known = {change.place for change in kept}
        make_private(self._record.parent)
        new = tuple(change for change in changes if change.place not in known)
        write_record(self._record, Tuned(self._boot, kept + new))
        for reading in readings:
            reading.setting.write(reading.place, reading.setting.wanted)
        return changes

    def restore(self) -> Restored:
        """Give back what ``apply`` changed. After a reboot nothing is: the machine has its own values again. A value
        that somebody else has set since is left. What is not found stays in the record for a later call: systemd may
        not have answered. Raises MachineError, RunError; a second call then goes on."""
        tuned = self._read()
        if tuned is None:
            return Restored((), ())
        if tuned.boot != self._boot:
            self._record.unlink()
            return Restored((), (), rebooted=True)
        back, left, missing = [], [], []
        own = {reading.place: reading for reading in read_settings(self._root)}
        for change in tuned.changes:
            if change.place not in own:
                left.append(f"{change.place}: not found now; repeat kit tune --restore, or reboot")
                missing.append(change)
                continue
            setting, value = own[change.place].setting, own[change.place].value
            if value == change.after:
                setting.write(change.place, change.before)
                back.append(SettingChange(change.place, change.after, change.before))
            elif value != change.before:  # it is the one before where the kit died before it was set
                left.append(f"{change.place}: somebody has set {value} since; it was {change.before}")
        if missing:
            write_record(self._record, Tuned(self._boot, tuple(missing)))
        else:
            self._record.unlink()
        return Restored(tuple(back), tuple(left))

    def _read(self) -> Tuned | None:
        tuned = read_record(Tuned, self._record)
        if tuned is None and self._record.exists():
            raise RunError(f"{self._record} can't be read", "remove it after a reboot, which resets every setting")
        return tuned


def _change(reading: Reading) -> SettingChange:
    return SettingChange(reading.place, reading.value, reading.setting.wanted)
