"""Collapsed stacks, read as flame graph programs read them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kit.core.sanitize import visible
from kit.extra.tracing.report.collapsed import render_collapsed
from kit.model.profile import WORKLOAD, make_profile
from kit.model.sample import Phase, Sample
from tests.nights import night
from tests.profiled import ARM, BASE, MORE, profiled_session


def read(text: str) -> dict[tuple[str, ...], int]:
    """As speedscope's importFromBGFlameGraph does: a stack, a blank, a whole number."""
    found = [re.fullmatch(r"(.*) (\d+)", line) for line in text.splitlines()]
    assert found and all(found)
    return {tuple(match[1].split(";")): int(match[2]) for match in found if match}


def test_stacks_have_their_time_below_their_arm() -> None:
    stacks = read(render_collapsed([profiled_session()]))
    arm, bare = sorted({stack[0] for stack in stacks}, reverse=True)
    assert bare == "bare" and re.fullmatch(rf"{ARM}: \+0\.\d+ s \[\+0\.\d+, \+\d\.\d+\] of CPU against bare", arm)
    costs = {root: sum(spent for stack, spent in stacks.items() if stack[0] == root) / 1e6 for root in (arm, bare)}
    assert costs["bare"] == pytest.approx(sum(BASE.values()), rel=0.05)
    assert costs[arm] - costs["bare"] == pytest.approx(sum(MORE.values()), abs=0.3)
    assert any("ovl_open" in stack for stack in stacks if stack[0] == arm)


def test_sessions_stay_apart() -> None:
    one = profiled_session()
    roots = {stack[0] for stack in read(render_collapsed([one, replace(one, id="other")]))}
    assert len(roots) == 4 and {root.split(":")[0] for root in roots} == {"mine, 20260101-000000-flam", "mine, other"}


def test_no_name_breaks_a_line_or_acts_on_a_terminal() -> None:
    profile = make_profile("cpu-clock", {(WORKLOAD, "a;b\n\x1b[2J 7", "f 1"): 0.5}, 1, 0)
    traced = Sample("bare", 1, "traced", "ok", 0.0, (Phase("build", "ok", real=1.0, profiles=(profile,)),))
    text = render_collapsed([replace(night(1, 0.1), samples=(traced,))])
    assert visible(text) == text
    assert read(text) == {("bare", WORKLOAD, "a:b \\x1b[2J 7", "f 1"): 500_000}


def test_a_session_without_stacks_has_no_line() -> None:
    assert render_collapsed([night(1, 0.1)]) == ""
