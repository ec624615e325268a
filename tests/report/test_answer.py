"""The first screen: it answers within 30 lines and 100 columns, whatever a session holds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kit.analysis.analyse import analyse, whole_real
from kit.core.errors import UsageError
from kit.model.sample import Phase, Sample
from kit.model.session import NotRun, Request, Session, title_of
from kit.report.answer import COLUMNS, LINES, answer
from kit.report.progress import so_far
from kit.report.ranking import headline, result_line
from tests.nights import ladder_session, night

COSTS = {
    "bare": 8.5, "runtime:overlay2": 8.6, "bind:overlay2": 8.6, "volume:overlay2": 8.6, "layer:overlay2": 8.7,
    "layer:vfs": 8.0, "layer:fuse-overlayfs": 21.0, "bare@btrfs": 9.5, "layer:btrfs": 9.6, "bare+control": 8.5,
}  # fmt: skip


def made(costs: dict[str, float], rounds: int = 5, noise: float = 0.01, points: tuple[str, ...] = ("",)) -> Session:
    dice = random.Random(5)
    samples = []
    for block in range(1, rounds + 1):
        for point in points:
            for arm, cost in costs.items():
                phase = Phase("build", "ok", real=cost * dice.gauss(1, noise), user=8.0, sys=1.0, flush=0.1)
                samples.append(Sample(arm, block, "measured", "ok", 0.0, (phase,), point=point))
    base = {arm: "bare@btrfs" if arm.endswith("btrfs") else "bare" for arm in costs}
    return replace(
        ladder_session(), id="20261121-092857-gjwg", arms=tuple(costs), samples=tuple(samples), not_run=(),
        facts={"caches": "warm"}, baselines=tuple((arm, base[arm]) for arm in costs if arm != base[arm]),
    )  # fmt: skip


def shown(session: Session, width: int = COLUMNS) -> str:
    return answer(session, analyse(session), width)


def test_it_says_what_to_take_first() -> None:
    lines = shown(made(COSTS)).splitlines()
    assert lines[1].startswith("take bind:overlay2")
    text = " ".join(line.strip() for line in lines[:5])
    assert "layer:fuse-overlayfs +14" in text and "layer:btrfs +" in text
    assert "layer:vfs" not in text.split(";")[0]  # its warm figure is not what it costs


@pytest.mark.parametrize("width", [100, 80])
def test_what_figures_are_worth_is_not_cut(width: int) -> None:
    """The longest that a guest says, and a session that did not come to its end."""
    facts = {
        "guest": "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)",
        "kernel": "6.1.192-kit-daf30773 #1 SMP",
        "accelerator": "none; every instruction is emulated: figures are NOT those of hardware",
    }
    text = shown(
        replace(made(COSTS), facts=facts, status="interrupted", title="sh -c 'for i in 1 2 3 4 5 6 7 …"), width
    )
    assert all(len(line) <= width for line in text.splitlines())
    head = " ".join(text.split())
    assert "rounds, interrupted IN A GUEST: QEMU" in head and "NOT those of hardware take " in head


def test_a_set_aside_arm_beats_nobody_in_the_headline() -> None:
    """vfs is told to be better than all; without it overlay2 and its like are the best there are."""
    session = made(COSTS)
    (ranking,) = analyse(session).rankings
    assert "layer:vfs" in ranking.better_than("layer:overlay2")
    assert headline(ranking).startswith("take layer:vfs;")
    assert headline(ranking, {"layer:vfs"}).startswith("take ") and "layer:overlay2" in headline(ranking, {"layer:vfs"})


@pytest.mark.parametrize("noise", [0.001, 0.05, 0.3])
def test_it_fits_a_terminal(noise: float) -> None:
    blocked = tuple(NotRun(f"layer:none{i}", f"reason {i} " * 20, "mend " * 30) for i in range(5))
    many = {**COSTS, **{f"layer:overlay2+cpus={i}": 9.0 for i in range(2, 8)}}
    few = made(COSTS, noise=noise)
    found = analyse(few)
    for session, analysis in (
        (replace(few, not_run=blocked[:1]), found), (replace(few, not_run=blocked), found),
        *((item, analyse(item)) for item in (made(many, noise=noise), ladder_session(), night(1, 0.05))),
    ):  # fmt: skip
        for width in (100, 80):
            text = answer(session, analysis, width)
            assert max(map(len, text.splitlines())) <= width, text
            assert text.count("\n") <= LINES + (width < COLUMNS) * 6, text
            assert "more: kit show" in text


def test_a_sweep_has_a_column_for_each_point_that_fits() -> None:
    costs = {"bare": 8.5, "layer:overlay2": 9.0, "layer:btrfs": 9.9}
    text = shown(made(costs, points=("jobs=1", "jobs=2")))
    assert "jobs=1" in text and "jobs=2" in text and "left out" not in text
    many = shown(made(costs, points=tuple(f"jobs={i}" for i in range(1, 9))))
    assert "jobs=1" in many and "jobs=8" in many and "points between are left out: --full" in many
    assert max(map(len, many.splitlines())) <= COLUMNS


def test_little_to_go_on_is_said() -> None:
    assert "in one round" in shown(made({"bare": 8.5, "layer:overlay2": 9.0, "layer:btrfs": 9.9}, rounds=1))
    assert "no interval" in shown(made({"bare": 8.5, "layer:overlay2": 9.0}, rounds=1))
    alone = shown(made({"bare": 8.5}))
    assert "bare   8.4" in alone
    empty = replace(made({"bare": 8.5}), samples=(), not_run=(NotRun("bare", "no root", "sudo"),))
    assert "nothing was measured" in shown(empty) and "fix: sudo" in shown(empty)


def test_the_log_of_a_failed_run_is_named_whole() -> None:
    log = "/var/lib/" + "long/" * 30 + "001-bare.log"
    failed = Sample("bare", 1, "measured", "failed", 0.0, (), error="run failed\n  | reason", log=log)
    text = shown(replace(made({"bare": 8.5}), samples=(failed,)))
    assert f"full log: {log}" in text and "  | reason" in text


def test_what_has_no_ratio_to_the_reference_is_named() -> None:
    session = made(COSTS)
    apart = tuple(
        replace(item, block=item.block + 100) if item.arm == "layer:btrfs" else item for item in session.samples
    )
    text = shown(replace(session, samples=apart))
    assert "not ranked: layer:btrfs: no ratio to layer:overlay2" in text
    assert "not ranked" not in shown(session)


def test_ranked_by_another_metric_and_against_another_arm() -> None:
    session = made(COSTS)
    (by_cpu,) = analyse(session, "cpu", "bind:overlay2").rankings
    assert (by_cpu.metric, by_cpu.reference) == ("cpu", "bind:overlay2")
    assert "against bind:overlay2" in answer(session, analyse(session, "cpu", "bind:overlay2"))
    with pytest.raises(UsageError, match="reference layer:zfs"):
        analyse(session, "", "layer:zfs")
    with pytest.raises(UsageError, match="metric nosuch"):
        analyse(session, "nosuch")


def test_a_session_has_a_title_that_fits_a_list() -> None:
    words = ("sh", "-c", "for i in 1 2 3; do something very long with it; done; and more of it")
    assert title_of(Request(command=words), "command") == "sh -c 'for i in 1 2 3; do something …"
    assert title_of(Request(command=words, title="our build"), "command") == "our build"
    assert title_of(Request(scenario="kernel:short"), "kernel:short") == "kernel:short"


def test_a_list_shows_what_each_session_found() -> None:
    found = [item for item in whole_real(analyse(made(COSTS)).comparisons) if not item.control]
    line = result_line(found)
    assert line.startswith("layer:fuse-overlayfs / bare +14") and "more told" in line
    assert result_line(()) == ""
    noisy = list(whole_real(analyse(made({"bare": 1.0, "layer:overlay2": 1.0}, noise=0.3)).comparisons))
    assert result_line(noisy) == "none of 1 told from its baseline"


def test_what_is_shown_meanwhile_is_the_table_of_the_answer() -> None:
    session = made(COSTS)
    table = so_far(session, COLUMNS)
    assert table.startswith("\nafter 5 rounds: time until the data is safe")
    assert "\n".join(table.splitlines()[2:]) in shown(session)
    assert so_far(None, COLUMNS) == so_far(made({"bare": 8.5}), COLUMNS) == ""
