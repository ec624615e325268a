"""kit tune on the real kernel: huge pages, the one setting that virtual machines have, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.host.kernel_setting import read_value
from tests.command_line import Kit

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
