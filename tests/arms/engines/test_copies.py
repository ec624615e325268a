"""Copies that run at once: their timing and their control group."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kit.arms.engines import Sandbox
from kit.arms.engines.copies import as_one, joined
from kit.arms.filesystem import Backing
from kit.arms.probe import Probe
from kit.core.errors import RunError
from kit.host.cgroup.cgroup import UNIFIED, Cgroup
from tests.fake_engine import TIMING


def test_copies_take_from_the_first_start_to_the_last_end() -> None:
    early = replace(TIMING, real=2.0, ended=12.0, max_rss=5)
    late = replace(TIMING, real=2.5, ended=13.0, max_rss=9)
    both = joined([late, early])
    assert (both.real, both.ended, both.spread, both.copies) == (3.0, 13.0, 1.0, 2)
    assert (both.user, both.minor_faults, both.max_rss) == (2 * TIMING.user, 2 * (TIMING.minor_faults or 0), 9)


def test_copies_have_failed_if_one_has() -> None:
    failed = replace(TIMING, exit_code=None, signal=9)
    assert [joined(timings).ok for timings in ([TIMING, TIMING], [TIMING, failed], [failed, TIMING])] == [
        True, False, False,
    ]  # fmt: skip


def test_copies_need_a_common_group(tmp_path: Path) -> None:
    def made(*names: str) -> Cgroup | None:
        groups = [Cgroup({UNIFIED: tmp_path / name}) for name in names]
        backing = Backing("fake", tmp_path, "fake", "fake", "", None)
        probe = cast(Probe, SimpleNamespace(connection=None))
        return as_one(
            [Sandbox("/t", "/i", group, backing, probe, lambda path: None, lambda: "", {}) for group in groups]
        ).cgroup

    assert made("a/b", "a/c") == Cgroup({UNIFIED: tmp_path / "a"})
    assert made("a", "a") == Cgroup({UNIFIED: tmp_path / "a"})  # all steps of builds
    with pytest.raises(RunError, match="no common control group"):
        made("a/b", "c/d")
