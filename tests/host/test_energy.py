"""Energy counters, from a directory in powercap's layout: this has not been seen on real hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.host.cgroup import counters
from kit.host.cgroup.counters import EnergyMeter
from kit.model.fact import ENERGY_SOURCE
from kit.session.setup.facts import _energy

#: That of Intel's desktops, in µJ.
RANGE = 262_143_328_850
DOMAINS = {
    "intel-rapl:0": "package-0",
    "intel-rapl:0:0": "core",
    "intel-rapl:0:1": "dram",
    "intel-rapl:1": "package-1",
    "intel-rapl:2": "psys",
    "intel-rapl-mmio:0": "package-0",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "intel-rapl").mkdir()
    for directory, name in DOMAINS.items():
        domain = tmp_path / directory
        domain.mkdir()
        (domain / "name").write_text(f"{name}\n")
        (domain / "max_energy_range_uj").write_text(f"{RANGE}\n")
        use(tmp_path, directory, 1_000_000)
    return tmp_path


def use(root: Path, domain: str, energy: int) -> None:
    (root / domain / "energy_uj").write_text(f"{energy}\n")


def test_whole_processors_are_added_up_once(root: Path) -> None:
    meter = EnergyMeter(root)
    assert meter.source == "package-0, package-1"
    assert meter.joules() == 0
    for number, directory in enumerate(DOMAINS):
        use(root, directory, 1_000_000 + 10**number * 1_000_000)
    assert meter.joules() == 1 + 1000


def test_a_counter_begins_again_at_zero(root: Path) -> None:
    use(root, "intel-rapl:0", RANGE - 1_999_999)
    meter = EnergyMeter(root)
    use(root, "intel-rapl:0", 3_000_000)
    assert meter.joules() == 5
    use(root, "intel-rapl:0", 2_000_000)  # all of its range but a joule
    assert meter.joules() == pytest.approx(5 + RANGE / 1e6 - 1)


def test_a_phase_has_what_was_used_in_its_slices(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = EnergyMeter(root)
    monkeypatch.setattr(counters, "machine_energy", lambda: meter)
    spent = []
    for begin, end in ((5_000_000, 7_000_000), (20_000_000, 21_000_000)):
        use(root, "intel-rapl:0", begin)
        before = counters.read_counters(None, None)
        use(root, "intel-rapl:0", end)
        spent.append(counters.read_counters(None, None).since(before))
    assert (spent[0] + spent[1]).energy == 3


def test_what_cannot_be_read_is_not_counted(root: Path) -> None:
    (root / "intel-rapl:1/energy_uj").unlink()
    meter = EnergyMeter(root)
    assert meter.joules() is None
    (found,) = _energy(meter)
    assert found == ENERGY_SOURCE.fact(f"unreadable: {root}/intel-rapl:1/energy_uj: No such file or directory")


def test_a_machine_without_counters_has_no_fact(tmp_path: Path) -> None:
    meter = EnergyMeter(tmp_path / "missing")
    assert meter.joules() is None
    assert not list(_energy(meter))
