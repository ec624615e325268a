import csv
import io
import json
import math
import random
import re
import statistics
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kit.analysis.session.analyse import analyse, detectable
from kit.extra.history.analysis.night import Night, Part, Task
from kit.extra.history.analysis.regression import Rule
from kit.extra.history.nightly.run import assess
from kit.extra.history.report.junit import render_junit
from kit.extra.pytest_plugin.compare import _fail_unless_whole
from kit.model.sample import Phase, Sample
from kit.model.session import NotRun, Request, Session
from kit.parsers.figure import MORE, Reported
from kit.report import render
from kit.report.format.interval import percent_interval
from kit.report.format.verdict import power
from tests.stores import new_store


def phase(name: str, real: float, group: float | None = None) -> Phase:
    return Phase(name, "ok", real, real, real / 4, group, 0.0, outside=0.1, flush=0.2, flush_cpu=0.01, exit_code=0)


def run(arm: str, round_: int, real: float) -> Sample:
    return Sample(arm, round_, "measured", "ok", 0.0, (phase("build", real), phase("clean", 0.5)))


SESSION = Session(
    "20260101-000000-aaaa", 0.0, "0", "smoke", "done", Request(scenario="smoke"),
    ("bare", "layer:overlay2", "layer:aufs"),
    (("layer:overlay2", "bare"), ("layer:aufs", "bare")), 1, {"kernel": "6.18", "caches": "warm"},
    (NotRun("layer:aufs", "no aufs here", "boot another kernel"),),
    tuple(run(arm, b, r + b / 100) for b in (1, 2, 3) for arm, r in (("bare", 2.0), ("layer:overlay2", 2.5))),
)  # fmt: skip


def text(name: str, session: Session) -> str:
    return render(name, session)


def test_table_shows_every_figure_with_its_interval() -> None:
    table = text("full", SESSION)
    assert "total of 2 phases" in table
    assert "phase build" in table and "phase clean" in table
    assert "1.248 [" in table  # build: 2.52 / 2.02 within rounds
    assert "layer:overlay2 / bare  +19.8" in table and "slower" in table
    assert "not run: layer:aufs: no aufs here\n  fix: boot another kernel" in table
    assert "kernel: 6.18" in table
    assert "\x1b" not in table


def test_one_run_has_no_interval_and_says_so() -> None:
    table = text("full", replace(SESSION, samples=SESSION.samples[:2]))
    assert "one round: no interval" in table
    assert "(no interval)" in table


def test_cgroup_figures_replace_the_trees_where_a_daemon_left_it() -> None:
    samples = tuple(
        Sample(arm, 1, "measured", "ok", 0.0, (phase("build", 1.0, group=group),))
        for arm, group in (("bare", 9.0), ("layer:overlay2", 9.5))
    )
    table = text("full", replace(SESSION, samples=samples))
    assert "user*" in table and "9.500 s" in table and "processes left the tree" in table


def test_failures_show_their_last_lines_and_log() -> None:
    bad = Sample("bare", 1, "measured", "failed", 0.0, (), error="build failed\n  | cc: no", log="/the/log")
    table = text("full", replace(SESSION, samples=(bad,), not_run=()))
    assert "Failed: bare, round 1: build failed\n  | cc: no\n  full log: /the/log" in table


def assessed(session: Session, directory: Path) -> Part:
    store = new_store(directory / "kit.db")
    store.add(session)
    return assess(Task(session.request), session, store, Rule())


def test_a_failed_traced_run_is_shown_and_fails_nothing(tmp_path: Path) -> None:
    bad = Sample("bare", 2, "traced", "failed", 0.0, (), error="perf: no", log="/the/log")
    session = replace(SESSION, samples=(*SESSION.samples, bad))
    assert "Failed: bare, traced round 2: perf: no" in text("full", session)
    part = assessed(session, tmp_path)
    assert (session.exit_code(()), part.error) == (0, "")
    _fail_unless_whole(replace(session, not_run=()))
    assert ElementTree.fromstring(render_junit(Night("mine", 0.0, (part,)))).get("errors") == "0"


def test_a_failed_warm_up_and_a_failed_round_fail_the_session(tmp_path: Path) -> None:
    for kind in ("warmup", "measured"):
        session = replace(SESSION, samples=(*SESSION.samples, Sample("bare", 4, kind, "failed", 0.0, (), error="no")))
        assert (session.exit_code(()), assessed(session, tmp_path / kind).error) == (1, "bare, round 4: no")
        with pytest.raises(pytest.fail.Exception, match="bare, round 4: no"):
            _fail_unless_whole(replace(session, not_run=()))


ARMS = ("bare", "bare+control", "runtime:overlay2", "bind:overlay2", "layer:overlay2")
COSTS = (2.0, 2.002, 2.001, 2.2, 2.5)
#: Five rounds of a whole ladder with a control, a few per mille of noise in them.
LADDER = replace(
    SESSION,
    arms=ARMS,
    baselines=tuple((arm, "bare") for arm in ARMS[1:]),
    not_run=(),
    samples=tuple(
        run(arm, b, cost + b / 100 + (b * 7 + i * 3) % 5 / 500)
        for b in range(1, 6)
        for i, (arm, cost) in enumerate(zip(ARMS, COSTS, strict=True))
    ),
)


def test_the_ladder_is_a_table_of_its_own() -> None:
    table = text("full", LADDER)
    assert "where the cost of layer:overlay2 comes from: seconds more than bare, and % of it, 5 rounds" in table
    head = next(line for line in table.splitlines() if "runtime tax" in line)
    assert head.split("  ")[0] == "" and all(name in head for name in ("read tax", "write tax", "flush debt", "whole"))
    for row in ("real + flush", "build", "clean", "CPU in the build", "outside CPU", "total CPU cost"):
        assert any(line.startswith(row) for line in table.splitlines()), row


def test_verdicts_show_both_intervals_and_a_plot() -> None:
    table = text("full", LADDER)
    assert "simultaneous" in table
    lines = {line.split()[0]: line for line in table.splitlines() if "│" in line}
    assert lines["layer:overlay2"].endswith("slower") and "●│" in lines["layer:overlay2"]
    assert "equivalent within ±3 %" in lines["runtime:overlay2"]
    assert lines["bare+control"].endswith("noise: identical arms")
    assert len({line.index("│") for line in lines.values()}) == 1
    assert "│" not in text("markdown", LADDER)


def test_the_noise_floor_names_the_smallest_penalty() -> None:
    table = " ".join(text("full", LADDER).split())
    assert "noise floor: two identical copies of bare differ by" in table
    sizes = [item.detectable for item in analyse(LADDER).comparisons if item.detectable and not item.control
             and (item.phase, item.metric) == ("total", "real")]  # fmt: skip
    first, *others = dict.fromkeys(f"{(size - 1) * 100:.1f} %" for size in sorted(sizes))
    span = f"{first} to {others[-1]}, by arm" if others else first
    assert f"smallest penalty that is significant here with 80 % power: {span}" in table
    assert analyse(LADDER).floors[0].detectable == max(sizes)
    assert "would be significant" not in table and "could detect" not in table
    without = replace(LADDER, baselines=LADDER.baselines[1:])
    assert "--control measures the noise with two identical arms" in " ".join(text("full", without).split())


def noisy(seed: int, penalty: float, rounds: int = 5) -> Session:
    """Three arms and a control; the first arm costs ``penalty`` more than bare."""
    dice = random.Random(seed)
    arms = {"bare": 0.0, "bare+control": 0.0, "layer:overlay2": penalty, "layer:btrfs": 0.0, "layer:vfs": 0.0}
    samples = tuple(
        Sample(
            arm, round_, "measured", "ok", 0.0, (Phase("build", "ok", 10 * (1 + more) * math.exp(dice.gauss(0, 0.03))),)
        )
        for round_ in range(1, rounds + 1)
        for arm, more in arms.items()
    )
    return Session("x", 0.0, "0", "x", "done", Request(rounds=rounds), tuple(arms),
                   tuple((arm, "bare") for arm in list(arms)[1:]), 1, samples=samples)  # fmt: skip


def test_what_80_percent_power_is_printed_for_is_found_in_four_sessions_of_five() -> None:
    """By verdicts, with all arms allowed for. The control's own interval named what is found in two of three."""
    said = statistics.median(size for seed in range(40) for size in detectable(analyse(noisy(seed, 0.0)).comparisons))
    found = 0
    for seed in range(1000, 1120):
        item = next(item for item in analyse(noisy(seed, said - 1)).comparisons if item.arm == "layer:overlay2")
        found += item.verdict_all == "more"
    assert 0.73 < found / 120 < 0.94


def test_explain_has_simultaneous_intervals_and_says_power_as_power() -> None:
    made = noisy(3, 0.02)
    (item,) = (item for item in analyse(made).comparisons if (item.arm, item.metric) == ("layer:overlay2", "real"))
    said = " ".join(text("explain", made).split())
    assert percent_interval(item.together) in said
    assert f"not significant; 80 % power for {((item.detectable or 0) - 1) * 100:.1f} %." in said
    assert "simultaneous 95 % intervals of 3 comparisons" in said
    assert "or more would be" not in said and "at most" not in said and "Bonferroni" not in said


def test_explain_names_the_fewest_rounds_of_any_figure_and_no_number_for_the_widest_arm() -> None:
    """A ladder rests on the rounds that hold all its arms: three where each of two rungs lost another one of five."""
    failed = ("runtime:overlay2", 2), ("bind:overlay2", 3)
    lost = tuple(item for item in LADDER.samples if (item.arm, item.round) not in failed)
    said = " ".join(text("explain", replace(LADDER, samples=lost)).split())
    assert "each figure rests on at least 3 rounds" in said
    assert "rounds would bring it" not in said and "--precision" not in said


def test_explain_says_in_sentences_what_was_found_and_what_was_not() -> None:
    said = " ".join(text("explain", LADDER).split())
    assert "Building in the writable layer of overlay2 on ext4 cost 19.7 %" in said
    assert "reading the root filesystem through the driver" in said and "writing through the driver" in said
    assert "plain directories is equivalent to bare within ±3 %" in said
    assert "put the build tree on a bind mount or a volume" in said
    assert "no overhead" not in said
    assert "Confidence:" in said and "noise floor" in said


def test_no_advice_rests_on_steps_that_do_not_differ_significantly() -> None:
    without = replace(LADDER, arms=tuple(a for a in ARMS if a != "bind:overlay2"),
                      baselines=tuple(pair for pair in LADDER.baselines if pair[0] != "bind:overlay2"),
                      samples=tuple(item for item in LADDER.samples if item.arm != "bind:overlay2"))  # fmt: skip
    said = " ".join(text("explain", without).split())
    assert "reading the root filesystem through the driver and writing through the driver; to separate them" in said
    assert "not the build tree" not in said


def test_explain_of_one_run_and_of_imported_figures_claims_nothing() -> None:
    one = " ".join(text("explain", replace(SESSION, samples=SESSION.samples[:2])).split())
    assert "in one round; run more rounds for an interval" in one
    assert "layer:aufs did not run: no aufs here. Fix: boot another kernel." in one
    renamed = tuple(replace(item, arm={"bare": "a b", "layer:overlay2": "old"}[item.arm]) for item in SESSION.samples
                    if item.arm in ("bare", "layer:overlay2"))  # fmt: skip
    imported = replace(SESSION, arms=("a b", "old"), baselines=(("old", "a b"),), samples=renamed, not_run=())
    assert "Building as old cost" in " ".join(text("explain", imported).split())


def test_a_sweep_has_a_table_for_each_point_and_its_growth() -> None:
    samples = tuple(
        replace(item, point=f"jobs={jobs}", phases=tuple(replace(p, real=(p.real or 0) / jobs) for p in item.phases))
        for item in SESSION.samples
        for jobs in (10, 2)
    )
    table = text("full", replace(SESSION, samples=samples))
    assert table.index("total of 2 phases at jobs=2") < table.index("total of 2 phases at jobs=10")
    assert "phase build" not in table
    assert "layer:overlay2 / bare [jobs=10]" in table
    assert "growth: the ratio layer:overlay2 / bare does not change significantly" in table


def test_drift_of_the_machine_is_reported() -> None:
    samples = tuple(
        run(arm, b, r * 1.05**b) for b in range(1, 9) for arm, r in (("bare", 2.0), ("layer:overlay2", 2.5))
    )
    assert "drift: all arms changed by +" in text("full", replace(SESSION, samples=samples))


def test_what_a_workload_reports_is_compared_and_shown() -> None:
    def with_figures(item: Sample) -> Sample:
        base = 100.0 if item.arm == "bare" else 80.0
        said = (Reported("read bandwidth", base + item.round, "MB/s", MORE), Reported("stat", None, "files/s", MORE))
        return replace(item, phases=(replace(item.phases[0], reported=said), item.phases[1]))

    session = replace(SESSION, samples=tuple(with_figures(item) for item in SESSION.samples))
    table = text("full", session)
    assert "reported by phase build" in table
    assert "read bandwidth, MB/s (more is better)  bare            102" in table
    assert re.search(r"layer:overlay2  82 +0\.804 \[", table, re.MULTILINE)
    assert "too fast to measure" in table
    document = json.loads(text("json", session))
    (found,) = [item for item in document["comparisons"] if item["metric"] == "read bandwidth"]
    assert (found["unit"], found["better"], found["verdict"]) == ("MB/s", "more", "less")
    assert document["samples"][0]["reported"][0] == {
        "name": "read bandwidth", "value": 101.0, "unit": "MB/s", "better": "more",
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(text("csv", session))))
    assert rows[0]["read bandwidth"] == "101.0" and rows[1]["read bandwidth"] == ""


def test_markdown_is_a_table() -> None:
    assert "| arm" in text("markdown", SESSION) and "<br>" in text("markdown", SESSION)


def test_json_holds_session_samples_and_comparisons() -> None:
    document = json.loads(text("json", SESSION))
    assert document["schema"] == 2
    assert document["session"]["id"] == SESSION.id
    assert len(document["samples"]) == 12
    first = document["samples"][0]
    assert {"arm", "round", "phase", "status", "real", "user", "sys", "cgroup_user", "cgroup_sys"} <= set(first)
    assert (first["arm"], first["round"], first["phase"], first["real"]) == ("bare", 1, "build", 2.01)
    comparison = document["comparisons"][0]
    assert {"arm", "baseline", "phase", "metric", "ratio", "low", "high", "n"} <= set(comparison)


def test_csv_has_a_line_per_phase() -> None:
    rows = list(csv.DictReader(io.StringIO(text("csv", SESSION))))
    assert len(rows) == 12
    assert rows[0]["session"] == SESSION.id and rows[0]["arm"] == "bare"


def test_warm_vfs_is_flagged_and_cold_is_not() -> None:
    def of(caches: str, arm: str = "layer:vfs") -> str:
        samples = (run("bare", 1, 2.0), run(arm, 1, 1.9))
        arms, pairs = ("bare", arm), ((arm, "bare"),)
        facts = {"caches": caches}
        return text("full", replace(SESSION, arms=arms, baselines=pairs, facts=facts, samples=samples, not_run=()))

    assert "layer:vfs: all files are copied into memory before the clock starts" in of("warm")
    assert "layer:vfs@xfs: all files are cloned before the clock starts, and none is in" in of("warm", "layer:vfs@xfs")
    assert "before the clock starts" not in of("cold")


def test_a_figure_that_one_arm_does_not_report_is_not_measured_there() -> None:
    def told(item: Sample) -> Sample:
        said = (Reported("fragments", 3.0, ""),) if item.arm == "bare" else ()
        return replace(item, phases=(replace(item.phases[0], reported=said), item.phases[1]))

    table = text("full", replace(SESSION, samples=tuple(told(item) for item in SESSION.samples)))
    lines = [line.split() for line in table.partition("reported by phase build")[2].splitlines()[3:5]]
    assert lines == [["fragments", "bare", "3"], ["layer:overlay2", "–"]]


def frozen_writes(size: float) -> Session:
    """The session with runs of bare that write 100 units of this size, 30 of them while they are frozen."""

    def wrote(sample: Sample) -> Sample:
        frozen = 30 * size if sample.arm == "bare" else size
        phases = [
            replace(item, slices=4.0, frozen_write_bytes=frozen, write_bytes=60 * size, flush_bytes=40 * size)
            for item in sample.phases
        ]
        return replace(sample, phases=tuple(phases))

    facts = {**SESSION.facts, "run order": "interleaved", "slice": "0.5 s"}
    return replace(SESSION, facts=facts, samples=tuple(map(wrote, SESSION.samples)))


@pytest.mark.parametrize(("size", "noted"), [(20e3, True), (10e3, False)])
def test_few_bytes_written_while_an_arm_was_frozen_are_no_note(size: float, noted: bool) -> None:
    """Two phases of 30 units: 1.2 and 0.6 MB."""
    for name in ("full", "answer"):
        assert ("while an arm was frozen" in " ".join(text(name, frozen_writes(size)).split())) == noted


def test_data_written_while_an_arm_was_frozen_is_noted_where_it_is_much() -> None:
    interleaved = frozen_writes(1e6)
    note = "Data written back while an arm was frozen is charged to no run: bare 30 % (60 MB); their flush"
    for name in ("full", "answer"):
        assert note in " ".join(text(name, interleaved).split())
    assert "an arm's own time slices of 0.5 s" in " ".join(text("full", interleaved).split())
    assert "frozen" not in text("full", SESSION) and "slices" not in text("full", SESSION)


def test_why_a_session_is_not_interleaved_is_on_the_first_screen() -> None:
    def said(order: str, why: str, interleave: str = "auto") -> str:
        facts = {**SESSION.facts, "run order": order, "why run order": why}
        session = replace(SESSION, facts=facts, request=replace(SESSION.request, interleave=interleave))
        return " ".join(text("answer", session).split())

    sequential = said("sequential", "the image drives the engine")
    assert "3 sequential rounds" in sequential
    assert "Runs are sequential: the image drives the engine" in sequential
    assert "are sequential" not in said("sequential", "the image drives the engine", "off")
    assert "a pilot run" not in said("interleaved", "a pilot run took 10 s")


@pytest.mark.parametrize(
    ("smallest", "text"), [(1.041, "4.1 %"), (87.539, "8,700 %"), (6698.0, "6700-fold"), (1e9, "> 100,000-fold")]
)
def test_the_smallest_penalty_has_no_digits_that_nobody_knows(smallest: float, text: str) -> None:
    assert power(smallest) == f"80 % power for {text}"
