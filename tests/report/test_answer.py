"""The first screen: it answers within 30 lines and 100 columns, whatever a session contains."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest

from kit.analysis.session.analyse import analyse, whole_real
from kit.analysis.session.difference import Difference
from kit.analysis.session.ranking import Ranking, RankRow
from kit.analysis.stats.estimate import EQUIVALENT, FASTER, INCONCLUSIVE, REFERENCE, SLOWER, Interval, Verdict
from kit.core.errors import UsageError
from kit.model.sample import INTERLEAVED, RUN_ORDER, Phase, Sample
from kit.model.session import NotRun, Request, Session, title_of
from kit.report import render
from kit.report.format.interval import amount_interval, percent_interval
from kit.report.text import summary
from kit.report.text.advice import advice, headline
from kit.report.text.answer import COLUMNS, LINES, _fit, _notes, _split, answer
from kit.report.text.caveats import outside_cpu_notes
from kit.report.text.progress import so_far
from kit.report.text.ranking import cells, result_line
from tests.command_line import joined
from tests.nights import ladder_session, night

COSTS = {
    "bare": 8.5, "runtime:overlay2": 8.6, "bind:overlay2": 8.6, "volume:overlay2": 8.6, "layer:overlay2": 8.7,
    "layer:vfs": 8.0, "layer:fuse-overlayfs": 21.0, "bare@btrfs": 9.5, "layer:btrfs": 9.6, "bare+control": 8.5,
}  # fmt: skip


def made(costs: dict[str, float], rounds: int = 5, noise: float = 0.01, points: tuple[str, ...] = ("",)) -> Session:
    dice = random.Random(5)
    samples = []
    for round_ in range(1, rounds + 1):
        for point in points:
            for arm, cost in costs.items():
                phase = Phase("build", "ok", real=cost * dice.gauss(1, noise), user=8.0, sys=1.0, flush=0.1)
                samples.append(Sample(arm, round_, "measured", "ok", 0.0, (phase,), point=point))
    base = {arm: "bare@btrfs" if arm.endswith("btrfs") else "bare" for arm in costs}
    return replace(
        ladder_session(), id="20261121-092857-gjwg", arms=tuple(costs), samples=tuple(samples), not_run=(),
        facts={"caches": "warm"}, baselines=tuple((arm, base[arm]) for arm in costs if arm != base[arm]),
    )  # fmt: skip


def shown(session: Session, width: int = COLUMNS) -> str:
    return answer(session, analyse(session), width)


def test_it_says_what_to_take_first() -> None:
    head, blank, container, use, avoid, more, aside, *_ = shown(made(COSTS, noise=0.003)).splitlines()
    assert container.startswith("A container costs +2.0 % [")
    assert (head, blank) == ("mine & <yours>, ext4 and btrfs: 5 rounds; decided", "")
    assert use == "Use bind:overlay2, volume:overlay2 or layer:overlay2: equivalent within ±3 %."  # not layer:vfs
    assert avoid == "Avoid layer:fuse-overlayfs: 2.4 times slower than layer:overlay2; layer:btrfs: 11 % slower than"
    assert more == "  layer:overlay2."
    assert aside.startswith("Not considered: layer:vfs (all files are copied")


TWO_ARMS = {"bare": 8.5, "bare+control": 8.5, "layer:overlay2": 9.05}
THREE_ARMS = {**TWO_ARMS, "bare@btrfs": 9.5, "layer:btrfs": 9.0}


def test_the_answer_says_first_what_a_container_costs_then_which_driver() -> None:
    interval = r"\+6\.\d % \[\+[456]\.\d, \+[678]\.\d\]"
    for costs, then in ((TWO_ARMS, ""), (THREE_ARMS, "Use layer:btrfs or layer:overlay2: equivalent within")):
        lines = shown(made(costs, noise=0.004)).splitlines()
        assert re.fullmatch(rf"A container costs {interval} \(layer:overlay2 vs bare\).", lines[2]), lines[2]
        assert lines[3].startswith(then)
    other = {**THREE_ARMS, "layer:btrfs": 8.6, "bare@btrfs": 8.0}
    said = " ".join(shown(made(other, noise=0.004)).split())
    cost = re.escape("% [") + r"[^]]*\] \(layer:btrfs vs bare@btrfs\)\. Use layer:btrfs: 5.\d % faster"
    assert re.search(rf"A container costs {interval} \(layer:overlay2 vs bare\); \+7\.\d {cost}", said), said
    noisy = " ".join(shown(made(THREE_ARMS, noise=0.2)).split())
    assert re.search(r"A container costs \S+ % \[[^]]*\], not significant \(layer:overlay2 vs bare\)\.", noisy)
    assert "A container" not in shown(made({"bare": 8.5, "bare@btrfs": 9.5}))


def test_a_sweep_says_first_what_a_container_costs_at_its_points() -> None:
    said = " ".join(shown(made(THREE_ARMS, noise=0.004, points=("jobs=1", "jobs=2"))).split())
    assert re.search(r"A container costs \+[^)]*\) at jobs=1; \+[^)]*\(layer:overlay2 vs bare\) at jobs=2\.", said)


@pytest.mark.parametrize("costs", [TWO_ARMS, THREE_ARMS, COSTS])
@pytest.mark.parametrize("rounds", [1, 5])
def test_no_cell_of_the_table_is_empty(costs: dict[str, float], rounds: int) -> None:
    found = analyse(made(costs, rounds))
    for row, texts in zip(found.rankings[0].rows, cells(found.rankings[0], found.rankings[0].rows), strict=True):
        assert all(texts), texts
        assert (texts[-1] == REFERENCE) == (row.against is None)


def test_one_comparison_has_one_interval_of_each_kind() -> None:
    """The headline, both columns, the sentences and the session's comparisons have the same figures."""
    for costs in (TWO_ARMS, THREE_ARMS, COSTS):
        session = made(costs)
        analysis = analyse(session)
        (found,) = analysis.rankings
        ends = attrgetter("ratio", "low", "high", "low_all", "high_all", "low_bound", "high_bound", "n")
        whole = {item.arm: item for item in analysis.comparisons
                 if (item.metric, item.phase) == (found.metric, found.phase)}  # fmt: skip
        pairs = {(pair.arm, pair.other): pair for pair in found.pairs}
        mine = pairs["layer:overlay2", "bare"]
        (row,) = (row for row in found.rows if row.arm == "bare")
        assert row.against and ends(mine) == ends(whole["layer:overlay2"]) == pytest.approx(ends(row.against.turned))
        assert mine.family == sum(not item.control for item in whole.values())
        assert {item.arm: ends(item) for item in found.costs} == {
            arm: ends(item) for arm, item in whole.items() if arm in {row.arm for row in found.rows}
        }
        text = percent_interval(mine.ratio, mine.low_all, mine.high_all)
        assert shown(session).count(text) == 2  # the headline and the column


def test_intervals_of_both_kinds_are_named_where_they_stand() -> None:
    session = made(COSTS)
    heading = next(line for line in render("full", session).splitlines() if line.startswith("arm / baseline"))
    assert "individual 95 %" in heading and "simultaneous" in heading and "change, 95 %" not in heading


def stopped(rounds: int, control: float = 0.003) -> Session:
    """A session of four rounds of which only some ran. ``control``: noise of the control, up and down in turn."""
    session = made({**TWO_ARMS, "layer:overlay2": 8.5, "layer:btrfs": 8.5, "bare@btrfs": 8.5}, 4, 0.0005)
    samples = []
    for item in session.samples:
        if item.round <= rounds:
            real = 8.5 * math.exp(control * (-1) ** item.round) if "control" in item.arm else item.phases[0].real
            samples.append(replace(item, phases=(replace(item.phases[0], real=real),)))
    return replace(session, samples=tuple(samples), status="interrupted", request=Request(rounds=4))


def test_a_session_stopped_before_its_third_round_calls_nothing_equivalent() -> None:
    said = " ".join(shown(stopped(2)).split())
    assert "equivalent within" not in said.replace("Not called equivalent within", "")
    assert "Not called equivalent within ±3 %: 3 rounds are the least for that." in said
    assert "Use layer:btrfs or layer:overlay2: equivalent within ±3 %." in shown(stopped(3))


def test_a_session_whose_control_differs_too_much_calls_nothing_equivalent() -> None:
    said = " ".join(shown(stopped(4, 0.08)).split())
    assert "equivalent within" not in said.replace("Not called equivalent within", "")
    why = r"Not called equivalent within ±3 %: even two identical arms, the control, may differ by \d+\.\d %\."
    assert re.search(why, said) and "inconclusive" in said
    full = " ".join(render("full", stopped(4, 0.08)).split())
    assert re.search(why, full) and ", equivalent" not in full
    assert "Not called" not in shown(stopped(4))


def with_footprint(session: Session, **factors: tuple[float, float, float]) -> Session:
    """Give every run 1 GB of space, 2 GB of writes and 300 MB of memory, times the factors of its arm and up to a
    percent of noise."""
    dice = random.Random(7)

    def more(sample: Sample) -> Sample:
        space, written, memory = factors.get(sample.arm.partition(":")[2], (1.0, 1.0, 1.0))
        figures = {"space": 1e9 * space, "write_bytes": 1.5e9 * written, "flush_bytes": 5e8 * written}
        if sample.arm.startswith("layer"):
            figures["arm_memory"] = 3e8 * memory
        noisy: dict[str, Any] = {name: value * dice.uniform(0.99, 1.01) for name, value in figures.items()}
        return replace(sample, phases=tuple(replace(phase, **noisy) for phase in sample.phases))

    return replace(session, samples=tuple(map(more, session.samples)))


def test_it_names_the_arms_that_take_much_more_than_the_reference() -> None:
    costs = {name: COSTS[name] for name in ("bare", "layer:overlay2", "layer:vfs", "layer:btrfs", "bare@btrfs")}
    large = with_footprint(made(costs), vfs=(12, 1.0, 1.0), btrfs=(1.4, 2.5, 3.0))
    note, memory = (line for line in _notes(made(costs), analyse(large)) if line.startswith(("Disk", "Memory")))
    assert re.fullmatch(
        r"Disk: layer:vfs uses 1[12]\.\d+ \[1[12]\.\d+, 12\.\d+\] times the space of layer:overlay2; "
        r"layer:btrfs writes 2\.\d+ \[2\.\d+, 2\.\d+\] times the bytes of layer:overlay2\.",
        note,
    ), note
    assert re.fullmatch(
        r"Memory: layer:btrfs uses [23]\.\d+ \[2\.\d+, 3\.\d+\] times the memory of layer:overlay2\.", memory
    )
    assert not analyse(with_footprint(made(costs))).footprints
    assert not analyse(made(costs)).footprints  # an older session has no such figures


def test_it_names_the_rounds_in_which_the_machine_swapped_or_was_hot() -> None:
    def strained(sample: Sample) -> Sample:
        figures: dict[str, Any] = {
            "swapped": 5e6 if sample.round == 2 else 4096.0,
            "throttled": float(sample.round > 3),
        }
        return replace(sample, phases=tuple(replace(phase, **figures) for phase in sample.phases))

    session = made(COSTS)
    assert "The machine swapped" not in shown(session)
    said = shown(replace(session, samples=tuple(map(strained, session.samples)))).splitlines()
    assert said[1:3] == [
        "The machine swapped in round 2.", "The CPU was throttled for its temperature in rounds 4 and 5.",
    ]  # fmt: skip


def test_an_arm_that_does_not_wait_for_the_disk_is_marked() -> None:
    session = made({"bare": 8.5, "layer:overlay2": 8.7, "layer:overlay2+nosync": 6.7})
    (note,) = (line for line in _notes(session, analyse(session)) if "crash" in line)
    assert note.startswith("layer:overlay2+nosync: a crash of the machine may lose")


IMAGE_STORE = {"bare": 8.5, "bind:overlayfs": 8.6, "layer:overlayfs": 9.2, "layer:overlay2": 8.7, "layer:vfs": 8.6}


@pytest.mark.parametrize(
    ("costs", "noise", "says"),
    [
        (IMAGE_STORE, 0.003, r" \+5\.\d % \[\+\d[^\]]*\], slower\."),
        (IMAGE_STORE | {"layer:overlayfs": 8.2}, 0.003, r" -5\.\d % \[-\d[^\]]*\], faster\."),
        (IMAGE_STORE | {"layer:overlayfs": 8.7}, 0.003, r" [^\[]*\[[^\]]*\], equivalent within ±3 %\."),
        (IMAGE_STORE, 0.2, r" [^\[]*\[[^\]]*\], not significant\."),
    ],
)
def test_it_says_what_switching_to_the_image_store_costs(costs: dict[str, float], noise: float, says: str) -> None:
    """Whichever of the two is the reference."""
    for default in ("layer:overlayfs", "layer:overlay2"):
        session = made(costs, noise=noise)
        session = replace(session, facts={**session.facts, "default reference": default})
        assert analyse(session).rankings[0].reference == default
        text = " ".join(shown(session).split())
        said = r"Switching from layer:overlay2 to layer:overlayfs \(containerd's image store\) changes the result by"
        assert re.search(said + says, text), text


def test_it_says_nothing_of_switching_where_only_one_of_the_two_ran() -> None:
    assert "Switching" not in shown(made(COSTS))
    lacking = {arm: cost for arm, cost in IMAGE_STORE.items() if arm != "layer:overlay2"}
    assert "Switching" not in shown(made(lacking))
    other = {"bare": 8.5, "layer:docker@29/overlayfs": 9.0, "layer:overlay2": 8.7, "layer:containerd/overlayfs": 8.8}
    assert "Switching" not in shown(made(other))


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
    assert "rounds; interrupted IN A GUEST: QEMU" in head and "NOT those of hardware A container costs " in head


def test_a_set_aside_arm_beats_nobody_in_the_headline() -> None:
    """vfs is significantly better than all; without it overlay2 and its like are the best."""
    session = made(COSTS, noise=0.004)
    (ranking,) = analyse(session).rankings
    assert "). Use layer:vfs: 7.1 % faster than bind:overlay2, the next." in headline(ranking)
    assert "). Use bind:overlay2" in headline(ranking, {"layer:vfs"})


@pytest.mark.parametrize("noise", [0.001, 0.05, 0.3])
def test_it_fits_a_terminal(noise: float) -> None:
    blocked = tuple(NotRun(f"layer:none{i}", f"reason {i} " * 20, "fix " * 30) for i in range(5))
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
            assert "More: kit show" in text and "Report: kit report" in text


def test_a_sweep_has_a_column_for_each_point_that_fits() -> None:
    costs = {"bare": 8.5, "layer:overlay2": 9.0, "layer:btrfs": 9.9}
    text = shown(made(costs, points=("jobs=1", "jobs=2")))
    assert "jobs=1" in text and "jobs=2" in text and "left out" not in text
    many = shown(made(costs, points=tuple(f"jobs={i}" for i in range(1, 9))))
    assert "jobs=1" in many and "jobs=8" in many and "points between are left out: --full" in many
    assert max(map(len, many.splitlines())) <= COLUMNS


def test_a_sweep_of_copies_has_the_throughput_of_the_reference_by_the_mean_time() -> None:
    """Two groups of two copies, in 10 s and in 30 s, are 360 copies an hour; the mean of the two rates is 480."""
    costs = {"bare": 9.0, "layer:overlay2": 10.0}
    session = made(costs, rounds=2, noise=1e-4, points=("copies=1", "copies=2"))
    slow = {1: 1.0, 2: 3.0}

    def slower(sample: Sample) -> Sample:
        real = (sample.phases[0].real or 0.0) * slow[sample.round]
        return replace(sample, phases=(replace(sample.phases[0], real=real, flush=0.0),))

    session = replace(session, samples=tuple(map(slower, session.samples)))
    (line,) = (line.split() for line in shown(session).splitlines() if line.startswith("copies per hour"))
    assert line[3:] == ["180", "360"]
    assert "copies per hour" in answer(session, analyse(session, "real"))
    assert "copies per hour" not in answer(session, analyse(session, "cpu"))  # no time of the group


def test_little_to_go_on_is_said() -> None:
    three = {"bare": 8.5, "layer:overlay2": 9.0, "layer:btrfs": 9.9}
    assert "One round has no interval" in shown(made(three, rounds=1))
    assert "no interval" in shown(made({"bare": 8.5, "layer:overlay2": 9.0}, rounds=1))
    alone = shown(made({"bare": 8.5}))
    assert "bare   8.4" in alone
    empty = replace(made({"bare": 8.5}), samples=(), not_run=(NotRun("bare", "no root", "sudo"),))
    assert "Nothing was measured." in shown(empty) and "fix: sudo" in shown(empty)


def test_the_log_of_a_failed_run_is_named_whole() -> None:
    log = "/var/lib/" + "long/" * 30 + "001-bare.log"
    failed = Sample("bare", 1, "measured", "failed", 0.0, (), error="run failed\n  | reason", log=log)
    text = shown(replace(made({"bare": 8.5}), samples=(failed,)))
    assert f"full log: {log}" in text and "  | reason" in text


def test_what_has_no_ratio_to_the_reference_is_named() -> None:
    session = made(COSTS)
    apart = tuple(
        replace(item, round=item.round + 100) if item.arm == "layer:btrfs" else item for item in session.samples
    )
    text = shown(replace(session, samples=apart))
    assert "Not ranked: layer:btrfs: no valid round contains both" in text
    assert "Not ranked" not in shown(session)


def test_ranked_by_another_metric_and_against_another_arm() -> None:
    session = made(COSTS)
    (by_cpu,) = analyse(session, "cpu", "bind:overlay2").rankings
    assert (by_cpu.metric, by_cpu.reference) == ("cpu", "bind:overlay2")
    assert "vs bind:overlay2" in answer(session, analyse(session, "cpu", "bind:overlay2"))
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
    assert line.startswith("layer:fuse-overlayfs / bare +14") and "1 more significant, 5 not significant" in line
    assert result_line(()) == ""
    noisy = list(whole_real(analyse(made({"bare": 1.0, "layer:overlay2": 1.0}, noise=0.3)).comparisons))
    assert result_line(noisy) == "1 comparison, none significant"


def test_what_is_shown_meanwhile_is_the_table_of_the_answer() -> None:
    session = made(COSTS)
    table = so_far(session, COLUMNS)
    title = "Ranking after 5 rounds (2 of 5 arms inconclusive); time until the data are on disk; simultaneous\n  95 %"
    assert table.startswith(f"\n{title} intervals\n")
    assert "\n".join(table.splitlines()[3:]) in shown(session)
    assert so_far(None, COLUMNS) == so_far(made({"bare": 8.5}), COLUMNS) == ""


def differs(arm: str, percent: float, half: float, reference: str = "layer:overlay2") -> Difference:
    """``arm`` over ``reference``, both intervals alike."""
    ratio, low, high = (1 + value / 100 for value in (percent, percent - half, percent + half))
    return Difference(arm, reference, ratio, low, high, low, high, 4, low, high)


def ranking(*pairs: Difference, verdicts: tuple[Verdict, ...], margin: float = 0.03) -> Ranking:
    """Of the arms of these pairs with the reference, in this order, then the reference itself."""
    others = [item for item in pairs if item.other == "layer:overlay2"]
    rows = [
        RankRow(item.arm, True, 11.1 * item.ratio, 11.1 * item.ratio, item, 1, 3, "a", 4, verdict)
        for item, verdict in zip(others, verdicts, strict=True)
    ]
    rows.append(RankRow("layer:overlay2", True, 11.1, 11.1, None, 1, 3, "a", 4, REFERENCE))
    rows.sort(key=lambda row: row.typical)
    return Ranking("durable", "s", "less", "build", "", "layer:overlay2", tuple(rows), (), pairs, margin=margin)


SLOW = differs("layer:fuse-overlayfs", 136, 8.5)


def test_equivalent_arms_are_named_together() -> None:
    one, two = differs("bind:overlay2", -1.4, 1.5), differs("layer:btrfs", -0.6, 1.7)
    between = differs("bind:overlay2", -0.8, 1.6, "layer:btrfs")
    found = ranking(one, two, SLOW, between, verdicts=(EQUIVALENT, EQUIVALENT, SLOWER))
    assert found.decided
    assert advice(found) == [
        "Use bind:overlay2, layer:btrfs or layer:overlay2: equivalent within ±3 %.",
        "Avoid layer:fuse-overlayfs: 2.4 times slower than layer:overlay2.",
    ]
    apart = replace(found, pairs=(one, two, SLOW, replace(between, high_bound=1.04)))
    said = advice(apart)[0]
    assert said.startswith("Use layer:overlay2, bind:overlay2 or layer:btrfs: each is equivalent")


def test_the_only_best_arm_is_compared_with_the_next() -> None:
    found = ranking(differs("layer:btrfs", -6.1, 1.0), SLOW, verdicts=(FASTER, SLOWER))
    assert advice(found) == [
        "Use layer:btrfs: 6.1 % faster than layer:overlay2, the next.",
        "Avoid layer:fuse-overlayfs: 2.4 times slower than layer:overlay2.",
    ]
    rate = replace(found, metric="read bandwidth", better="more", unit="MB/s", rows=found.rows[::-1])
    assert advice(rate)[0] == "Use layer:fuse-overlayfs: 2.4 times more than layer:overlay2, the next."


def test_arms_that_beat_others_are_advised_with_the_bound_of_what_they_differ_by() -> None:
    """No difference between bind and volume is significant, and both beat the reference."""
    one, two = differs("bind:overlay2", -6.1, 1.0), differs("volume:overlay2", -5.7, 1.0)
    found = ranking(one, two, differs("bind:overlay2", -0.4, 3.5, "volume:overlay2"), verdicts=(FASTER, FASTER))
    use, avoid = advice(found)
    assert use.startswith("Use bind:overlay2 or volume:overlay2: no significant difference between them; at most ")
    assert use.endswith("4.1 % apart.") and avoid == "Avoid layer:overlay2: 6.5 % slower than bind:overlay2."


def test_a_sweep_says_what_to_use_and_to_avoid_at_which_points() -> None:
    costs = {"bare": 8.5, "layer:overlay2": 9.0, "layer:btrfs": 9.9, "layer:fuse-overlayfs": 21.0}
    points = ("jobs=1", "jobs=2")
    same = " ".join(shown(made(costs, noise=0.003, points=points)).split())
    assert "Use layer:overlay2 at every point. Avoid layer:fuse-overlayfs at every point; layer:btrfs at every" in same
    session = made(costs, noise=0.003, points=points)
    swapped = {"layer:overlay2": "layer:btrfs", "layer:btrfs": "layer:overlay2"}
    samples = tuple(
        replace(item, arm=swapped.get(item.arm, item.arm)) if item.point == "jobs=2" else item
        for item in session.samples
    )
    turned = replace(session, samples=samples, baselines=tuple((arm, "bare") for arm in list(costs)[1:]))
    said = " ".join(shown(turned).split())
    assert "Use layer:overlay2 at jobs=1; layer:btrfs at jobs=2." in said
    assert "Use" not in shown(made(costs, rounds=1, points=points))


@pytest.mark.parametrize("noise", [0.004, 0.05])
def test_each_note_of_the_first_screen_is_in_the_full_view(noise: float) -> None:
    """``2 more notes: --full`` leads to them: by their words, or by the table of the same figures."""
    tables = ("Time is", "Where ", "Noise:", "Drift:")
    session = made(COSTS, noise=noise)
    apart = tuple(
        replace(
            item,
            round=item.round + 100 * (item.arm == "layer:btrfs"),
            phases=tuple(replace(phase, outside=7.9 if "fuse" in item.arm else 0.0) for phase in item.phases),
        )
        for item in session.samples
    )
    facts = {**session.facts, "not traced": "no bpftrace", "measured together": "a, b may share a machine",
             "rounds of a": "1, 2, 3", "rounds of b": "4, 5"}  # fmt: skip
    session = replace(session, samples=apart, facts=facts)
    analysis = analyse(session)
    full = " ".join(render("full", session).split())
    seen = [note for note in _notes(session, analysis) if not note.startswith(tables)]
    assert len(seen) >= 5
    for note in seen:
        assert " ".join(note.removeprefix("Not traced: ").split()) in full, note


def test_one_note_more_is_singular() -> None:
    assert _fit(["a", "b", "c"], 3) == ["a", "b", "c"]
    assert _fit(["a", "b\nb\nb", "c"], 4)[-1] == "2 more notes: --full"
    assert _fit(["a", "b\nb\nb"], 3)[-1] == "1 more note: --full"


def test_what_is_not_significant_is_not_called_equivalent() -> None:
    found = ranking(differs("layer:btrfs", -2.1, 4.0), verdicts=(INCONCLUSIVE,))
    (line,) = advice(found)
    assert line == ("No significant difference between layer:overlay2 and layer:btrfs; at most 6.5 % apart.")
    assert advice(replace(found, margin=0.07)) == ["Use layer:btrfs or layer:overlay2: equivalent within ±7 %."]


def test_how_far_arms_are_apart_is_told_by_one_sided_bounds() -> None:
    """Only one end of each interval can be nearer than the truth: the one on its side."""
    pair = replace(differs("layer:btrfs", -2.1, 4.0), low_bound=0.948, high_bound=1.01)
    assert advice(ranking(pair, verdicts=(INCONCLUSIVE,)))[0].endswith("; at most 5.5 % apart.")


def timed(session: Session, seconds: float) -> Session:
    """With rounds that begin so far apart."""
    samples = tuple(replace(item, started=1e9 + seconds * item.round) for item in session.samples)
    facts = {**session.facts, "cpu": "some CPU, 2 cores, microcode 1", "run order": "interleaved"}
    return replace(session, samples=samples, facts=facts)


def test_the_head_says_how_long_it_took_and_which_rule_ended_it() -> None:
    session = timed(made(COSTS, noise=0.003, rounds=4), 125)
    analysis = analyse(session)
    assert summary.summary(session, analysis) == (
        "mine & <yours>, 2 cores, ext4 and btrfs: 4 interleaved rounds in 8 min 20 s; decided"
    )
    facts = {**session.facts, "image": "kernel 0123456789ab (recipe kernel, bookworm)"}
    for request, named in (
        (Request(command=("make",)), ", image kernel, 2 cores"), (Request(commands=(("a", "b"),)), ", image kernel, "),
        (Request(command=("make",), image="smoke"), ">, 2 cores"), (Request("kernel"), ">, 2 cores"),
    ):  # fmt: skip
        assert named in summary.summary(replace(session, request=request, facts=facts), analysis)
    noisy = analyse(made(COSTS, noise=0.05))
    asked, budget = replace(Request(), rounds=4), replace(Request(), rounds=4, budget=600.0)
    precise = replace(Request(), precision=0.2)
    for made_of, request, status, rule in (
        (noisy, Request(), "done", "undecided, budget spent"), (analysis, asked, "done", "as asked"),
        (analysis, budget, "done", "budget spent"), (analysis, precise, "done", "precision reached"),
        (analysis, Request(), "interrupted", "interrupted"), (analysis, Request(), "running", "not finished"),
    ):  # fmt: skip
        assert summary.ending(replace(session, request=request, status=status), made_of) == rule


def test_parts_of_a_cost_are_named_by_their_simultaneous_intervals() -> None:
    (steps,) = (item for item in analyse(ladder_session()).whole_ladders if item.arm == "layer:overlay2")
    wide, narrow = Interval(0.03, -0.01, 0.07, 6), Interval(0.03, 0.01, 0.05, 6)
    container, reading, *others = (replace(step, share=narrow, share_all=wide) for step in steps.steps)
    clear = replace(reading, share_all=Interval(0.05, 0.02, 0.08, 6))
    assert _split(replace(steps, steps=(container, clear, *others))) == (
        "Where layer:overlay2's cost comes from: reading +5.0 % [+2.0, +8.0]; container, writing and late flush: not "
        "significant."
    )


def test_the_noise_is_said_to_have_an_individual_interval() -> None:
    session = made(COSTS)
    (line,) = (note for note in _notes(session, analyse(session)) if note.startswith("Noise:"))
    assert re.fullmatch(r"Noise: two identical copies of bare differ by .* \[.*\] \(individual\)\.", line)


def test_outside_cpu_has_a_line_where_it_is_notable() -> None:
    session = made({"bare": 8.5, "layer:overlay2": 9.0, "layer:fuse-overlayfs": 21.0})
    samples = tuple(
        replace(item, phases=tuple(replace(phase, outside=7.9 if "fuse" in item.arm else 0.01)
                                   for phase in item.phases))
        for item in session.samples
    )  # fmt: skip
    text = " ".join(shown(replace(session, samples=samples)).split())
    assert "Outside CPU: layer:fuse-overlayfs uses +7.890 s [+7.890, +7.890] per run more than bare, which" in text
    assert "Outside CPU" not in shown(session)


def test_outside_cpu_has_the_interval_that_is_simultaneous() -> None:
    dice = random.Random(3)
    session = made({"bare": 8.5, "layer:overlay2": 9.0, "layer:btrfs": 9.1, "layer:fuse-overlayfs": 21.0})

    def used(arm: str) -> float:
        return dice.uniform(7.7, 8.1) if "fuse" in arm else dice.uniform(0.2, 0.4)

    samples = tuple(
        replace(item, phases=tuple(replace(phase, outside=used(item.arm)) for phase in item.phases))
        for item in session.samples
    )
    analysis = analyse(replace(session, samples=samples))
    (cpu,) = analysis.outside_cpu
    assert cpu.difference_low_all and cpu.difference_low and cpu.difference_low_all < cpu.difference_low
    (line,) = outside_cpu_notes(analysis)
    assert amount_interval(cpu.difference, cpu.difference_low_all, cpu.difference_high_all) in line


def test_reasons_why_arms_were_not_run_stand_where_they_are_short() -> None:
    few = tuple(NotRun(f"layer:{name}", f"no {name} in this kernel", "boot") for name in ("zfs", "aufs", "devmap"))
    text = " ".join(shown(replace(made(COSTS), not_run=few)).split())
    assert "Not run: layer:zfs (no zfs in this kernel); layer:aufs (no aufs in this kernel); layer:devmap (" in text
    wordy = tuple(replace(item, reason=item.reason * 5) for item in few)
    text = " ".join(shown(replace(made(COSTS), not_run=wordy)).split())
    assert "Not run: layer:zfs, layer:aufs, layer:devmap (reasons and fixes: --full)." in text


def undecided_session(noise: float = 0.012) -> Session:
    """Five rounds of 100 s."""
    return timed(made({"bare": 10.8, "layer:overlay2": 11.1, "layer:btrfs": 10.95}, noise=noise), 100)


def test_an_undecided_session_says_what_would_decide_it() -> None:
    session = undecided_session()
    lines = shown(session).splitlines()
    assert lines[0].endswith("5 interleaved rounds in 8 min 20 s; undecided, budget spent")
    at = next(i for i, line in enumerate(lines) if line.startswith("Inconclusive after 8 min 20 s: layer:btrfs vs lay"))
    said = " ".join(lines[at : at + 3])
    found = re.search(
        r"About (\d+) more minutes \(80 % range (\d+) to ([\d,]+)\) would show equivalence within ±3 % or a diff", said
    )
    assert found
    likely, least, most = (int(number.replace(",", "")) for number in found.groups())
    assert least < likely < most
    command = next(line for line in lines if line.startswith("kit compare --resume"))
    budget = f"{5 * math.ceil(most / 5)}m" if most <= 120 else f"{math.ceil(most / 60)}h"
    assert command == f"kit compare --resume {session.id} --budget {budget}"


def test_only_an_open_session_goes_on() -> None:
    session = undecided_session()
    request = Request(command=("make", "-j2"), source="/srv/my project", arms=("bare", "layer:btrfs"), rounds=5)
    fixed = shown(replace(session, request=request)).splitlines()
    assert "; as asked" in fixed[0] and not [line for line in fixed if "--resume" in line]
    (command,) = re.findall(r"^kit compare .*", joined("\n".join(fixed)), re.M)
    whole = r"kit compare --arms bare,layer:btrfs --source '/srv/my project' --rounds auto --budget \d+[mh] -- make -j2"
    assert re.fullmatch(whole, command)
    of_file = replace(request, profiles=(("mine", "[mine]"),))
    assert "Start a new session with --rounds auto" in " ".join(shown(replace(session, request=of_file)).split())
    stopped = shown(replace(session, status="interrupted"))
    assert f"\nkit compare --resume {session.id}\n" in stopped and "more minutes" not in stopped
    decided = shown(undecided_session(0.003))
    assert "Inconclusive" not in decided and "--resume" not in decided


def open_session(costs: dict[str, float], noise: float, margin: float = 0.03, rounds: int = 5) -> Session:
    """Interleaved rounds of 100 s: what copies differ by counts."""
    session = timed(made({"layer:overlay2": 11.0, **costs}, rounds, noise), 100)
    samples = tuple(replace(item, digests=((RUN_ORDER, INTERLEAVED),)) for item in session.samples)
    return replace(session, samples=samples, request=Request(margin=margin))


def test_where_no_number_of_rounds_decides_that_is_said() -> None:
    """Copies differ by more than the margin: layer:btrfs, which costs the same, is never equivalent."""
    said = " ".join(shown(open_session({"layer:btrfs": 11.0}, 0.002, margin=0.01)).split())
    assert "100 rounds would probably not decide layer:btrfs: measure with a --margin above 1 %, or a longer" in said
    assert "--resume" not in said and "more minutes" not in said


def test_an_arm_that_is_said_to_stay_undecided_is_not_said_to_be_decided_soon() -> None:
    """Two lines on, the minutes are those of the others."""
    said = " ".join(shown(open_session({"layer:btrfs": 11.0, "layer:vfs": 11.15}, 0.006, margin=0.01)).split())
    assert "100 rounds would probably not decide layer:btrfs: measure" in said
    assert re.search(r"About \d+ more minutes \(80 % range .*\) would show equivalence of the others within ±1 %", said)


def test_what_100_rounds_may_not_decide_has_no_upper_end() -> None:
    """95 further rounds take 158 minutes."""
    likely = " ".join(shown(open_session({"layer:btrfs": 11.0}, 0.06)).split())
    assert re.search(r"About \d+ more minutes \(80 % range \d+ to more than 158\) would show equivalence with", likely)
    assert "--budget 3h" in likely and "would probably not" not in likely
    unlikely = " ".join(shown(open_session({"layer:btrfs": 12.3}, 0.07)).split())
    assert "To show equivalence within ±3 % or a difference may take more than 158 minutes, if more rounds" in unlikely
    assert "About" not in unlikely and "--budget 3h" in unlikely and "would probably not" not in unlikely


def test_after_100_rounds_no_more_are_advised() -> None:
    said = " ".join(shown(open_session({"layer:btrfs": 11.0}, 0.2, rounds=100)).split())
    assert "100 rounds did not decide layer:btrfs: measure with a --margin above 3 %, or a longer build." in said
    assert "--resume" not in said and "minutes would" not in said


def test_several_commands_are_compared_with_the_first() -> None:
    costs = {"layer:btrfs+command=slow": 8.0, "layer:btrfs+command=fast": 6.0}
    session = made(costs, noise=0.003)
    session = replace(
        session, facts={**session.facts, "default reference": "layer:btrfs+command=slow"},
        baselines=(("layer:btrfs+command=fast", "layer:btrfs+command=slow"),),
    )  # fmt: skip
    said = shown(session)
    assert "Use layer:btrfs+command=fast: 25 % faster than layer:btrfs+command=slow, the next." in said
    of_bare = replace(
        session, arms=tuple(arm.replace("layer:btrfs", "bare") for arm in session.arms),
        samples=tuple(replace(item, arm=item.arm.replace("layer:btrfs", "bare")) for item in session.samples),
        baselines=(("bare+command=fast", "bare+command=slow"),),
        facts={**session.facts, "default reference": "bare+command=slow"},
    )  # fmt: skip
    assert "vs bare+command=slow" in shown(of_bare) and "same FS" not in shown(of_bare)
