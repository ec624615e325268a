"""What kit tune sets is given back exactly: after a kill, after a reboot, and beside what others have set. The files
lie in a directory in sysfs's layout; CPU frequencies were not seen on a real machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kit.core.errors import MachineError, RunError
from kit.host.setting import KERNEL_SETTINGS, KernelSetting
from kit.host.tuning import SettingChange, Tuning, read_settings


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two CPUs that scale, with turbo. A real sysfs lists all values of huge pages; a plain file keeps what is
    written."""
    root = tmp_path / "root"
    for name, value in {
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "schedutil\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)
    return root


def values(root: Path) -> list[str]:
    return [reading.value for reading in read_settings(root)]


BEFORE = ["powersave", "schedutil", "0", "always"]
QUIET = ["performance", "performance", "1", "madvise"]


def test_each_cpu_gets_its_own_value_back(root: Path, tmp_path: Path) -> None:
    tuning = Tuning(tmp_path / "state", root)
    assert len(tuning.plan()) == 4
    assert values(root) == BEFORE
    tuning.apply()
    assert values(root) == QUIET
    assert tuning.plan() == ()
    restored = tuning.restore()
    assert values(root) == BEFORE
    assert len(restored.back) == 4
    assert tuning.restore().back == ()


def test_a_second_apply_keeps_the_first_values(root: Path, tmp_path: Path) -> None:
    tuning = Tuning(tmp_path / "state", root)
    tuning.apply()
    (root / "sys/devices/system/cpu/intel_pstate/no_turbo").write_text("0\n")
    tuning.apply()
    tuning.restore()
    assert values(root) == BEFORE


@pytest.mark.parametrize("written", range(5))
def test_a_killed_apply_is_undone(root: Path, tmp_path: Path, written: int) -> None:
    """Killed after so many settings were written."""
    child = os.fork()
    if not child:
        count = 0
        real = KernelSetting.write

        def write(self: KernelSetting, place: str, value: str) -> None:
            nonlocal count
            if count == written:
                os.kill(os.getpid(), signal.SIGKILL)
            real(self, place, value)
            count += 1

        try:
            KernelSetting.write = write  # type: ignore[method-assign]
            Tuning(tmp_path / "state", root).apply()
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert values(root) == QUIET[:written] + BEFORE[written:]
    Tuning(tmp_path / "state", root).restore()
    assert values(root) == BEFORE


def test_after_a_reboot_nothing_is_written(root: Path, tmp_path: Path) -> None:
    """The administrator may have made the kit's value the machine's own."""
    Tuning(tmp_path / "state", root, "first boot").apply()
    restored = Tuning(tmp_path / "state", root, "second boot").restore()
    assert restored.rebooted
    assert values(root) == QUIET
    assert not Tuning(tmp_path / "state", root, "second boot").restore().rebooted


def test_an_apply_after_a_reboot_forgets_the_record_of_before(root: Path, tmp_path: Path) -> None:
    Tuning(tmp_path / "state", root, "first boot").apply()
    governor = root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    governor.write_text("ondemand\n")
    tuning = Tuning(tmp_path / "state", root, "second boot")
    tuning.apply()
    assert tuning.restore().back == (SettingChange(str(governor), "performance", "ondemand"),)
    assert values(root) == ["ondemand", *QUIET[1:]]


def test_what_somebody_else_has_set_is_left(root: Path, tmp_path: Path) -> None:
    tuning = Tuning(tmp_path / "state", root)
    tuning.apply()
    (root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").write_text("ondemand\n")
    restored = tuning.restore()
    assert values(root) == ["ondemand", *BEFORE[1:]]
    assert "ondemand" in restored.left[0]


def test_a_setting_that_is_missing_for_a_while_is_given_back_later(root: Path, tmp_path: Path) -> None:
    """As units are while systemd does not answer."""
    tuning = Tuning(tmp_path / "state", root)
    tuning.apply()
    governor = root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    governor.rename(tmp_path / "away")
    restored = tuning.restore()
    assert len(restored.back) == 3 and "not found now" in restored.left[0]
    (tmp_path / "away").rename(governor)
    assert tuning.restore().back == (SettingChange(str(governor), "performance", "powersave"),)
    assert values(root) == BEFORE and tuning.restore().back == ()


def test_a_record_writes_to_settings_alone(root: Path, tmp_path: Path) -> None:
    tuning = Tuning(tmp_path / "state", root)
    tuning.apply()
    other = tmp_path / "other"
    other.write_text("performance")
    record = tmp_path / "state/tuned.json"
    record.write_text(record.read_text().replace(str(next(iter(read_settings(root))).place), str(other)))
    assert "not found now" in tuning.restore().left[0]
    assert other.read_text() == "performance"


def test_an_unreadable_record_is_kept(root: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(0o700)
    (state / "tuned.json").write_text("{")
    for act in (Tuning(state, root).apply, Tuning(state, root).restore):
        with pytest.raises(RunError, match=r"tuned\.json can't be read"):
            act()
    assert values(root) == BEFORE


def test_a_refused_setting_is_named() -> None:
    """/dev/full refuses every write."""
    with pytest.raises(MachineError, match="can't be set to 1: No space left"):
        KERNEL_SETTINGS[0].write("/dev/full", "1")


def test_what_is_missing_is_not_advised_about(tmp_path: Path) -> None:
    assert Tuning(tmp_path / "state", tmp_path).plan() == ()
