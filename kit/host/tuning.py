"""Sets kernel settings for measuring, and gives back what was before. The record of it is durable before the first
setting changes, so that a killed kit can be undone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import MachineError, RunError, said_by_system
from kit.core.private import make_private
from kit.host.durable import read_record, write_record
from kit.host.kernel_setting import read_settings, read_value
from kit.host.recovery.process_id import Owner


@dataclass(frozen=True)
class SettingChange:
    path: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}: {self.before} → {self.after}"


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
        return tuple(
            SettingChange(str(reading.path), reading.value, reading.setting.wanted)
            for reading in read_settings(self._root)
            if reading.noisy
        )

    def apply(self) -> tuple[SettingChange, ...]:
        """Set what is noisy, and return it. A setting that an earlier call changed keeps its first value in the record.
        Raises MachineError for a setting that the kernel refuses: those before it are set, and can be given back."""
        changes = self.plan()
        if not changes:
            return ()
        earlier = self._read()
        kept = earlier.changes if earlier and earlier.boot == self._boot else ()
        known = {change.path for change in kept}
        make_private(self._record.parent)
        new = tuple(change for change in changes if change.path not in known)
        write_record(self._record, Tuned(self._boot, kept + new))
        for change in changes:
            _write(change.path, change.after)
        return changes

    def restore(self) -> Restored:
        """Give back what ``apply`` changed. After a reboot nothing is: the kernel has its own values again. A value
        that somebody else has set since is left. Raises MachineError, RunError; a second call then goes on."""
        tuned = self._read()
        if tuned is None:
            return Restored((), ())
        if tuned.boot != self._boot:
            self._record.unlink()
            return Restored((), (), rebooted=True)
        back, left = [], []
        own = {str(reading.path) for reading in read_settings(self._root)}
        for change in tuned.changes:
            if change.path not in own:
                left.append(f"{change.path}: this machine has no such setting now")
                continue
            value = read_value(Path(change.path))
            if value == change.after:
                _write(change.path, change.before)
                back.append(SettingChange(change.path, change.after, change.before))
            elif value != change.before:  # it is the one before where the kit died before it was set
                left.append(f"{change.path}: somebody has set {value} since; it was {change.before}")
        self._record.unlink()
        return Restored(tuple(back), tuple(left))

    def _read(self) -> Tuned | None:
        tuned = read_record(Tuned, self._record)
        if tuned is None and self._record.exists():
            raise RunError(f"{self._record} can't be read", "remove it after a reboot, which resets every setting")
        return tuned


def _write(path: str, value: str) -> None:
    try:
        Path(path).write_text(value)
    except PermissionError as error:
        raise MachineError(f"{said_by_system(error)}; it can't be set to {value}", "run as root: sudo kit …") from None
    except OSError as error:
        fix = "see whether the firmware or a container forbids it"
        raise MachineError(f"{path} can't be set to {value}: {error.strerror}", fix) from None
