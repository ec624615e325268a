"""Doctor's advice about the machine, from files in sysfs's and procfs's layout."""

from __future__ import annotations

from pathlib import Path

from kit.session.doctor import settings, swap


def test_cpus_share_a_line_and_what_is_missing_has_none(tmp_path: Path) -> None:
    for number, governor in enumerate(("performance", "powersave")):
        directory = tmp_path / f"sys/devices/system/cpu/cpu{number}/cpufreq"
        directory.mkdir(parents=True)
        (directory / "scaling_governor").write_text(f"{governor}\n")
    (found,) = settings(tmp_path)
    assert (found.name, found.works, found.fix) == ("CPU governor", False, "sudo kit tune --apply")
    assert found.reason.startswith("powersave: ")


def test_only_swap_that_exists_is_advised_about(tmp_path: Path) -> None:
    file = tmp_path / "swaps"
    heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    file.write_text(heading)
    assert list(swap(file)) == []
    file.write_text(f"{heading}/dev/vda2                               partition\t1048572\t\t20480\t\t-2\n")
    (found,) = swap(file)
    assert found.reason.startswith("/dev/vda2, 20 MiB in use: ")
