"""kit tune on the real kernel, with huge pages, the one setting that virtual machines have, too, and a real systemd."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.host.setting import read_value
from tests.command_line import Kit
from tests.systemd import Systemd, booted
from tests.waiting import wait_until

PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.fixture
def noisy_pages() -> Iterator[None]:
    if not PAGES.exists():
        pytest.skip(f"this kernel has no {PAGES}")
    before = read_value(PAGES)
    PAGES.write_text("always")
    yield
    PAGES.write_text(before)


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.usefixtures("noisy_pages")
def test_huge_pages_are_set_and_given_back(kit: Kit) -> None:
    assert f"{PAGES}: always → madvise" in kit("tune").stdout
    assert read_value(PAGES) == "always"
    applied = kit("tune", "--apply", "--wait")
    assert applied.returncode == 0, applied.stderr
    assert read_value(PAGES) == "madvise"
    assert kit("tune").stdout == "nothing to change\n"
    restored = kit("tune", "--restore", "--wait")
    assert restored.returncode == 0, restored.stderr
    assert read_value(PAGES) == "always"
    assert kit("tune", "--restore", "--wait").stdout == "nothing to restore\n"


SERVICE = "[Service]\nExecStart=sleep infinity\n"
#: The service takes a second to stop.
UNITS = {
    "apt-daily.timer": "[Timer]\nOnCalendar=2099-01-01\nUnit=job.service\n",
    "fstrim.timer": "[Timer]\nOnActiveSec=1h\nUnit=job.service\n",
    "irqbalance.service": f"{SERVICE}ExecStop=touch /run/stopping\nExecStop=sleep 1\n",
    "job.service": SERVICE,
}
OURS = tuple(name for name in UNITS if name != "job.service")
ADVICE = "from kit.session.doctor import settings; print(*settings(), sep='\\n')"
KIT = (sys.executable, "-m", "kit")


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    with booted(UNITS, tmp_path) as systemd:
        yield systemd


def states(systemd: Systemd) -> list[str]:
    return [systemd.state(name) for name in OURS]


@pytest.mark.machine
@pytest.mark.unmeasured
def test_units_are_stopped_and_started(systemd: Systemd) -> None:
    planned = systemd.run(*KIT, "tune").stdout
    assert all(f"{name}: active → inactive" in planned for name in OURS)
    assert "job.service" not in planned
    assert states(systemd) == ["active"] * 3
    advice = systemd.run(sys.executable, "-c", ADVICE).stdout
    assert "apt-daily.timer (next: Thu 2099-01-01 00:00:00 UTC), fstrim.timer: the distribution's jobs" in advice
    applied = systemd.run(*KIT, "tune", "--apply", "--wait")
    assert applied.returncode == 0, applied.stderr
    assert states(systemd) == ["inactive"] * 3
    assert systemd.state("job.service") == "active"

    # Its owner starts one, and wants never to see another again.
    systemd.run("systemctl", "start", "fstrim.timer")
    systemd.run("systemctl", "mask", "--runtime", "irqbalance.service")
    restored = systemd.run(*KIT, "tune", "--restore", "--wait")
    assert restored.returncode == 0, restored.stderr
    assert "apt-daily.timer: inactive → active" in restored.stdout
    assert "fstrim" not in restored.stdout
    assert restored.stderr == "irqbalance.service: somebody has set masked since; it was active\n"
    assert states(systemd) == ["active", "active", "inactive"]


@pytest.mark.machine
@pytest.mark.unmeasured
def test_units_of_a_killed_kit_are_started(systemd: Systemd, tmp_path: Path) -> None:
    with subprocess.Popen([*systemd.inside, *KIT, "tune", "--apply", "--wait"]) as process:
        wait_until(lambda: systemd.run("test", "-e", "/run/stopping").returncode == 0, process=process)
        systemd.run("pkill", "--signal", "KILL", "--full", "tune --apply")
    assert "active" not in states(systemd)
    restored = systemd.run(*KIT, "tune", "--restore", "--wait")
    assert restored.returncode == 0, restored.stderr
    assert states(systemd) == ["active"] * 3
