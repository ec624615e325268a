"""What is said of stacks, of a session whose truth is known."""

from __future__ import annotations

import base64
import re
import zlib
from xml.etree import ElementTree

import pytest

from kit.analysis.session.analyse import analyse
from kit.analysis.stats.estimate import Estimate, Interval
from kit.core.codec import UnreadableError
from kit.extra.tracing.analysis.flame import grow_flame
from kit.extra.tracing.analysis.profiles import analyse_profiles, differing
from kit.extra.tracing.analysis.stacks import INCLUSIVE, ProfiledRun, StackCost
from kit.extra.tracing.report.flame import plot_flame
from kit.model.profile import WORKLOAD, CpuProfile, fold, make_profile
from kit.report import render
from kit.report.page.page import view
from tests.profiled import ARM, CALLERS, profiled_session


def test_the_table_names_what_differs_with_intervals_and_fits() -> None:
    text = render("profile", profiled_session())
    assert max(map(len, text.splitlines())) <= 100
    assert "3 traced rounds" in text and "by cpu-clock; 42 more were lost" in text
    row = next(line for line in text.splitlines() if line.startswith("backing_file_open") and "[" in line)
    own, low, high = map(float, re.findall(r"[+-]\d\.\d+", row)[:3])
    assert low < 0.6 < high and low < own < high
    less = next(line for line in text.splitlines() if line.startswith("ext4_file_open") and "[" in line)
    assert float(re.findall(r"[+-]\d\.\d+", less)[2]) < 0
    assert re.search(r"layer:overlay2 vs bare: \+\d\.\d+ s \[.*\] of CPU", text)


def significant_rows(text: str, column: int) -> set[str]:
    """Return the functions whose interval in this column of intervals excludes 0."""
    rows = [line for line in text.splitlines() if line.count("[") and "against" not in line]
    found = {row: re.findall(r"–  |\[([+-][\d.]+), ([+-][\d.]+)\]", row) for row in rows}
    ends = {row: both[column] for row, both in found.items() if len(both) > column}
    return {row.split("  ")[0] for row, (low, high) in ends.items() if low and float(low) * float(high) > 0}


@pytest.mark.parametrize("seed", range(4))
def test_the_sentence_tells_what_the_table_does(seed: int) -> None:
    """A function that only calls more, and is never on top of a stack, differs significantly with what it calls."""
    text = render("profile", profiled_session(seed, more=CALLERS))
    sentence = " ".join(text.split("\n\n")[1].split())
    functions = text.split("functions that differ most")[1]
    assert not significant_rows(functions, 0)
    assert {"__clone (libc.so.6)", "clone3 (libc.so.6)"} <= significant_rows(functions, 1)
    assert "Significant: no part of the machine; no function by its own time; with what they call, " in sentence
    assert re.search(r"__clone \(libc.so.6\) \+\d\.\d+ s", sentence) and "clone3 (libc.so.6) -" in sentence


def cost(name: str, difference: float, half: float) -> StackCost:
    ends = difference, difference - half, difference + half, 3
    return StackCost(
        INCLUSIVE, (name,), ARM, "bare", difference, 0.0, Estimate(*ends, Interval(*ends), neutral=0.0), 20
    )


def test_what_is_significant_has_a_row_before_larger_differences_that_may_be_noise() -> None:
    noisy = [cost(f"noisy{number}", 5.0, 6.0) for number in range(20)]
    found = differing({ARM: [], "bare": []}, (ARM, "bare"), noisy, [*noisy, cost("ovl_open", 0.1, 0.05)])
    assert "ovl_open" in [item.name for item in found]


def test_of_functions_that_pass_a_difference_on_the_callee_is_named() -> None:
    (found,) = analyse_profiles(profiled_session())
    (arm,) = found.arms
    named = [item.name for item in arm.functions]
    assert "backing_file_open" in named and "path_openat" in named  # where two ways part
    assert "ovl_open" not in named[:4] and "entry_SYSCALL_64_after_hwframe" not in named


def test_without_stacks_it_says_so() -> None:
    session = profiled_session(rounds=0)
    assert render("profile", session) == "this session sampled no stacks; run kit compare … --profile\n"
    assert view(session, analyse(session)).sections == []


def test_a_page_holds_a_graph_of_each_arm() -> None:
    session = profiled_session()
    (section,) = view(session, analyse(session)).sections
    (part,) = section.content
    base, arm = part.flames
    assert section.pictures == [base.picture, arm.picture]
    assert not base.coloured and arm.coloured and ARM in arm.picture.title
    for flame in part.flames:
        for text in (flame.picture.inline(), flame.picture.file()):
            root = ElementTree.fromstring(text)
            assert root.find("{*}title") is not None and root.find("{*}desc") is not None
    boxes = {node.get("data-name"): node for node in ElementTree.fromstring(arm.picture.inline()).iter("g")}
    assert "more3" in (boxes["ovl_open"].get("class") or "")
    assert "less" in (boxes["ext4_file_open"].get("class") or "")
    assert "same" in (boxes["[as]"].get("class") or "")
    assert "backing_file_open +" in arm.picture.text or "ovl_open +" in arm.picture.text


def test_frames_lie_within_the_frame_that_calls_them() -> None:
    (found,) = analyse_profiles(profiled_session())
    frames = [found.flames["bare"]]
    while frames:
        frame = frames.pop()
        assert sum(item.seconds for item in frame.below) <= frame.seconds * 1.0001
        frames += frame.below


def test_stacks_are_packed_and_come_back() -> None:
    stacks = {("workload", "cc1", "operator()(int) const (x)", "a"): 0.25, ("rest", "sh"): 0.002}
    profile = make_profile("cpu-clock", stacks, 126, 3)
    assert profile.stacks() == pytest.approx(stacks) and profile.quantum == pytest.approx(0.002)
    assert fold({("a;b", "c\nd", ""): 1.0}) == "a:b;c d;- 1000000\n"


@pytest.mark.parametrize("folded", ["", "not packed", make_profile("x", {("a",): 1.0}, 1, 0).folded[:-4]])
def test_what_is_no_profile_is_refused(folded: str) -> None:
    with pytest.raises(UnreadableError):
        CpuProfile("cpu-clock", 1, 0, 1.0, folded).stacks()


@pytest.mark.parametrize("line", ["a;b twelve", "a", " 12", "a " + "9" * 400, ";".join("a" * 5000) + " 1"])
def test_a_line_that_is_no_stack_is_refused(line: str) -> None:
    with pytest.raises(UnreadableError):
        packed = base64.b64encode(zlib.compress(f"{line}\n".encode())).decode()
        CpuProfile("cpu-clock", 1, 0, 1.0, packed).stacks()


def test_what_is_deeper_than_a_kernel_hands_over_is_cut_and_drawn() -> None:
    deep = tuple(f"f{i}" for i in range(1000))
    (kept,) = make_profile("cpu-clock", {(WORKLOAD, "cc1", *deep): 1.0}, 500, 0).stacks()
    assert len(kept) == 300
    flame = grow_flame([ProfiledRun(1, {kept: 1.0}, 0.002)])
    assert plot_flame(flame, "bare", "", "x", "").body.count("<rect") == 301
