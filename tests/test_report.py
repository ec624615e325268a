import csv
import io
import json
from dataclasses import replace

from kit.record import NotRun, Request, Session
from kit.report import render
from kit.sample import Phase, Sample


def phase(name: str, real: float, group: float | None = None) -> Phase:
    return Phase(name, "ok", real, real, real / 4, group, 0.0, elsewhere=0.1, flush=0.2, exit_code=0)


def run(arm: str, block: int, real: float) -> Sample:
    return Sample(arm, block, "measured", "ok", 0.0, (phase("build", real), phase("clean", 0.5)))


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
    table = text("table", SESSION)
    assert "total of 2 phases" in table
    assert "phase build" in table and "phase clean" in table
    assert "1.248 (" in table  # build: 2.52 / 2.02 within blocks
    assert "layer:overlay2 / bare  +19.8 % (" in table and "slower" in table
    assert "not run: layer:aufs: no aufs here\n  fix: boot another kernel" in table
    assert "kernel: 6.18" in table
    assert "\x1b" not in table


def test_one_run_has_no_interval_and_says_so() -> None:
    table = text("table", replace(SESSION, samples=SESSION.samples[:2]))
    assert "1 run: no interval" in table
    assert "(no interval)" in table


def test_cgroup_figures_replace_the_trees_where_a_daemon_left_it() -> None:
    samples = tuple(
        Sample(arm, 1, "measured", "ok", 0.0, (phase("build", 1.0, group=group),))
        for arm, group in (("bare", 9.0), ("layer:overlay2", 9.5))
    )
    table = text("table", replace(SESSION, samples=samples))
    assert "user*" in table and "9.500 s" in table and "processes left the tree" in table


def test_failures_show_their_last_lines_and_log() -> None:
    bad = Sample("bare", 1, "measured", "failed", 0.0, (), error="build failed\n  | cc: no", log="/the/log")
    table = text("table", replace(SESSION, samples=(bad,), not_run=()))
    assert "failed: bare, round 1: build failed\n  | cc: no\n  full log: /the/log" in table


def test_markdown_is_a_table() -> None:
    assert "| arm" in text("markdown", SESSION) and "<br>" in text("markdown", SESSION)


def test_json_holds_session_samples_and_comparisons() -> None:
    document = json.loads(text("json", SESSION))
    assert document["schema"] == 1
    assert document["session"]["id"] == SESSION.id
    assert len(document["samples"]) == 12
    first = document["samples"][0]
    assert {"arm", "block", "phase", "status", "real", "user", "sys", "cgroup_user", "cgroup_sys"} <= set(first)
    assert (first["arm"], first["block"], first["phase"], first["real"]) == ("bare", 1, "build", 2.01)
    comparison = document["comparisons"][0]
    assert {"arm", "baseline", "phase", "metric", "ratio", "low", "high", "n"} <= set(comparison)


def test_csv_has_a_line_per_phase() -> None:
    rows = list(csv.DictReader(io.StringIO(text("csv", SESSION))))
    assert len(rows) == 12
    assert rows[0]["session"] == SESSION.id and rows[0]["arm"] == "bare"


def test_warm_vfs_is_flagged_and_cold_is_not() -> None:
    def of(caches: str) -> str:
        samples = (run("bare", 1, 2.0), run("layer:vfs", 1, 1.9))
        arms, pairs = ("bare", "layer:vfs"), (("layer:vfs", "bare"),)
        facts = {"caches": caches}
        return text("table", replace(SESSION, arms=arms, baselines=pairs, facts=facts, samples=samples, not_run=()))

    assert "layer:vfs: vfs copies the root filesystem" in of("warm")
    assert "vfs copies" not in of("cold")
