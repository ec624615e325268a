"""Doctor's commands for noisy settings: huge pages on the real kernel, the one setting that virtual machines have, too,
and units on a real systemd."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.host.setting import read_value
from kit.session.doctor import settings
from tests.systemd import Systemd, booted

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
def test_the_fix_for_huge_pages_sets_them() -> None:
    (advice,) = (item for item in settings() if item.name == "huge pages")
    assert not advice.works and advice.reason.startswith("always: ")
    subprocess.run(["sh", "-ec", advice.fix.replace("sudo ", "")], check=True, stdout=subprocess.DEVNULL)
    assert read_value(PAGES) == "madvise"
    (after,) = (item for item in settings() if item.name == "huge pages")
    assert after.works


SERVICE = "[Service]\nExecStart=sleep infinity\n"
UNITS = {
    "apt-daily.timer": "[Timer]\nOnCalendar=2099-01-01\nUnit=job.service\n",
    "fstrim.timer": "[Timer]\nOnActiveSec=1h\nUnit=job.service\n",
    "irqbalance.service": SERVICE,
    "job.service": SERVICE,
}
OURS = tuple(name for name in UNITS if name != "job.service")
ADVICE = "from kit.session.doctor import settings; print(*settings(), sep='\\n')"
FIXES = "from kit.session.doctor import settings; print(*(item.fix for item in settings()), sep='\\n')"


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    with booted(UNITS, tmp_path) as systemd:
        yield systemd


def states(systemd: Systemd) -> list[str]:
    return [systemd.state(name) for name in OURS]


@pytest.mark.machine
@pytest.mark.unmeasured
def test_the_fixes_for_units_stop_them_and_no_job(systemd: Systemd) -> None:
    assert states(systemd) == ["active"] * 3
    advice = systemd.run(sys.executable, "-c", ADVICE).stdout
    assert "apt-daily.timer (next: Thu 2099-01-01 00:00:00 UTC), fstrim.timer: the distribution's jobs" in advice
    fixes = [line for line in systemd.run(sys.executable, "-c", FIXES).stdout.splitlines() if "systemctl" in line]
    assert fixes == ["sudo systemctl stop apt-daily.timer fstrim.timer", "sudo systemctl stop irqbalance.service"]
    for fix in fixes:
        assert systemd.run("sh", "-c", fix.removeprefix("sudo ")).returncode == 0
    assert states(systemd) == ["inactive"] * 3 and systemd.state("job.service") == "active"
    assert "systemctl" not in systemd.run(sys.executable, "-c", FIXES).stdout
