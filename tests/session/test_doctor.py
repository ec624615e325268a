"""Doctor's advice about the machine, from files in sysfs's and procfs's layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.core.errors import SESSION_LOG, BusyError, RunError
from kit.session.doctor import guarded, settings
from kit.session.trial import Diagnosis
from tests.ordinary_user import ordinary_user


def test_cpus_share_a_line_and_what_is_missing_has_none(tmp_path: Path) -> None:
    for number, governor in enumerate(("performance", "powersave")):
        directory = tmp_path / f"sys/devices/system/cpu/cpu{number}/cpufreq"
        directory.mkdir(parents=True)
        (directory / "scaling_governor").write_text(f"{governor}\n")
    (found,) = settings(tmp_path)
    assert (found.name, found.works) == ("CPU governor", False)
    assert found.fix == "echo performance | sudo tee /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
    assert found.reason.startswith("powersave: ")


@pytest.mark.parametrize(
    ("name", "file", "noisy", "quiet"),
    [
        ("turbo (Intel)", "devices/system/cpu/intel_pstate/no_turbo", "0", "1"),
        ("turbo", "devices/system/cpu/cpufreq/boost", "1", "0"),
        ("huge pages", "kernel/mm/transparent_hugepage/enabled", "[always] madvise never", "always [madvise] never"),
    ],
)
def test_what_is_noisy_has_the_command_that_sets_it(
    name: str, file: str, noisy: str, quiet: str, tmp_path: Path
) -> None:
    path = tmp_path / "sys" / file
    path.parent.mkdir(parents=True)
    for value, works in ((noisy, False), (quiet, True)):
        path.write_text(f"{value}\n")
        (found,) = settings(tmp_path)
        assert (found.name, found.works) == (name, works)
        assert bool(found.fix) != works and found.fix.endswith(f" | sudo tee /sys/{file}" * (not works))


@pytest.mark.parametrize(
    ("error", "reason", "fix"),
    [
        (RunError("the probe did not start", "check with kit doctor whether this arm works"), "the probe", SESSION_LOG),
        (OSError(28, "No space left on device", "/run/kit"), "/run/kit: No space", "free space on that filesystem"),
        (ValueError("cpu MHz"), "ValueError: cpu MHz", "report it: this is a fault of the kit"),
    ],
)
def test_what_fails_in_a_section_is_a_line_of_it(error: Exception, reason: str, fix: str) -> None:
    """No fix of doctor's refers to doctor."""
    works = Diagnosis("measuring", "cgroup CPU", True, "counted")

    def section() -> Iterator[Diagnosis]:
        yield works
        raise error

    first, last = guarded("measuring", section())
    assert first == works and (last.kind, last.works, last.fix) == ("measuring", False, fix)
    assert last.reason.startswith(reason)


def test_what_only_root_may_do_is_no_fault_of_a_mount() -> None:
    def section() -> Iterator[Diagnosis]:
        yield Diagnosis("machine", "init", True, Path("/proc/1/environ").read_text())

    with ordinary_user():
        (diagnosis,) = guarded("machine", section())
    assert (diagnosis.reason, diagnosis.fix) == ("/proc/1/environ needs root", "run as root: sudo kit …")


def test_a_machine_that_is_held_is_no_fault_of_the_machine() -> None:
    def section() -> Iterator[Diagnosis]:
        yield Diagnosis("tool", "tar", True, "/usr/bin/tar")
        raise BusyError("session 1 is running", "wait")

    with pytest.raises(BusyError):
        list(guarded("session", section()))
