"""Runs that hyperfine, pytest-benchmark and perf stat have timed."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import UsageError
from kit.extra.exchange.report.hyperfine import render_hyperfine, render_hyperfine_1
from kit.extra.exchange.report.pytest_benchmark import render_pytest_benchmark
from kit.extra.exchange.runs import read_runs
from tests.command_line import Kit
from tests.nights import night

#: Of hyperfine 1.15 and of 1.20, which adds memory.
HYPERFINE: dict[str, Any] = {
    "results": [
        {"command": "make", "mean": 1.5, "stddev": 0.1, "median": 1.5, "user": 1.1, "system": 0.2, "min": 1.4,
         "max": 1.6, "times": [1.4, 1.6], "exit_codes": [0, 0]},
        {"command": "docker run mine make", "mean": 2.0, "stddev": None, "median": 2.0, "user": 1.2, "system": 0.3,
         "min": 2.0, "max": 2.0, "times": [2.0], "memory_usage_byte": [4096], "exit_codes": [0]},
        {"command": "false", "mean": 0.1, "stddev": None, "median": 0.1, "user": 0.0, "system": 0.0, "min": 0.1,
         "max": 0.1, "exit_codes": [1]},
    ]
}  # fmt: skip
#: perf 6.1, with and without --table.
PERF_TABLE = """
 Performance counter stats for 'make -j2' (3 runs):

              0.44 msec task-clock                       #    0.514 CPUs utilized            ( +-  6.12% )
   <not supported>      cycles

          # Table of individual measurements:
          1.001806 (+0.000947) ###########
          1.000002 (-0.000857) #############
          0.990768 (-0.000090)

          # Final result:
          0.998859 +- 0.000523 seconds time elapsed  ( +- 60.87% )

"""
PERF_MEAN = """
 Performance counter stats for 'make' (3 runs):

                47      page-faults                      #   99.153 K/sec                    ( +-  1.88% )

          2,000562 +- 0,000280 seconds time elapsed  ( +- 49,81% )
"""
PERF_ONE = """
 Performance counter stats for 'make':

       0.500000000 seconds time elapsed

       0.400000000 seconds user
       0.100000000 seconds sys


"""


def reals(text: str) -> list[tuple[str, float]]:
    return [(run.name, run.figures["real"]) for run in read_runs(text, "f")]


def test_hyperfine_gives_each_run() -> None:
    text = json.dumps(HYPERFINE)
    assert reals(text) == [("make", 1.4), ("make", 1.6), ("docker run mine make", 2.0), ("false", 0.1)]
    first, _, single, failed = read_runs(text, "f")
    assert set(first.figures) == {"real"}  # user and sys are means of the two
    assert dict(single.figures) == {"real": 2.0, "user": 1.2, "sys": 0.3, "max_rss": 4096}
    assert (single.error, failed.error) == ("", "exit code 1")


def test_pytest_benchmark_gives_each_round() -> None:
    document = {"benchmarks": [{"name": "test_a[x]", "stats": {"mean": 2.0, "data": [1.0, 3.0]}},
                               {"name": "test_a[y]", "stats": {"mean": 2.5}}]}  # fmt: skip
    assert reals(json.dumps(document)) == [("test_a[x]", 1.0), ("test_a[x]", 3.0), ("test_a[y]", 2.5)]


def test_perf_stat_gives_each_run_of_a_table_or_the_mean() -> None:
    assert reals(PERF_TABLE) == [("make -j2", 1.001806), ("make -j2", 1.000002), ("make -j2", 0.990768)]
    assert reals("# started on Fri\n\n" + PERF_MEAN + PERF_TABLE)[:2] == [("make", 2.000562), ("make -j2", 1.001806)]
    (run,) = read_runs(PERF_ONE, "f")
    assert dict(run.figures) == {"real": 0.5, "user": 0.4, "sys": 0.1}
    assert [run.mean for run in read_runs(PERF_ONE + PERF_MEAN + PERF_TABLE, "f")] == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps(HYPERFINE).replace("1.4, 1.6", '"x"'), "f: not JSON of hyperfine"),
        (json.dumps(HYPERFINE).replace("1.4, 1.6", "-1.0"), "f: not JSON of hyperfine"),
        ('{"benchmarks": [{"stats": {}}]}', "f: not JSON of pytest-benchmark"),
        (" Performance counter stats for 'make':\n\n", "f, line 1: a run without real"),
        ('{"results": []}', "f: no timed run"),
        ('{"results": [{"command": "x"', "f: no timed run"),
        ("{" * 100_000, "f: no timed run"),
        ('{"results": ' + "[" * 100_000, "f: no timed run"),
    ],
)
def test_what_can_not_be_read_is_named(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_runs(text, "f")
    assert caught.value.message.startswith(says)


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode("utf-16"),
        lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
        lambda text: text.encode("utf-16-le"),
        lambda text: text.encode("utf-16-be"),
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.replace("\n", "\r\n").encode("utf-16"),
        lambda text: gzip.compress(text.encode()),
        lambda text: bz2.compress(text.encode()),
        lambda text: lzma.compress(text.encode()),
    ],
)
def test_import_reads_what_other_systems_write(kit: Kit, tmp_path: Path, encode: Callable[[str], bytes]) -> None:
    for name, text in (("perf.txt", PERF_ONE), ("hyper.json", json.dumps({"results": HYPERFINE["results"][1:2]}))):
        (tmp_path / name).write_bytes(encode(text))
    assert imported(kit, tmp_path, tmp_path / "perf.txt", tmp_path / "hyper.json") == {"perf": [0.5], "hyper": [2.0]}


def test_a_path_with_an_equals_sign_is_a_path_if_it_exists(kit: Kit, tmp_path: Path) -> None:
    path = tmp_path / "fs=btrfs" / "time.txt"
    path.parent.mkdir()
    path.write_text(PERF_ONE)
    assert imported(kit, tmp_path, path, f"b={path}", f"layer:overlay2+seccomp=unconfined={path}") == {
        "time": [0.5], "b": [0.5], "layer:overlay2+seccomp=unconfined": [0.5],
    }  # fmt: skip
    done = kit("import", "a=nosuch.txt")
    assert done.returncode == 2 and "nosuch.txt: No such file" in done.stderr


def test_a_dry_run_shows_what_is_understood_and_stores_nothing(kit: Kit, tmp_path: Path) -> None:
    log = "Command exited with non-zero status 2\nreal 1:02.5\nuser 1\nsys 0,25\n"
    log += "make  1.0s user 2.0s system 10% cpu 3.5 total\n"
    (tmp_path / "job.log").write_text("".join(f"#9 1.0 {line}\n" for line in log.splitlines()))
    store = tmp_path / "kit.db"
    words = ("import", f"a={tmp_path}/job.log", "--dry-run", "--store", f"sqlite:///{store}")
    done = kit(*words)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[2][1:] == ["bash/posix/busybox/ksh", "a", "62.5", "1", "0.25", "exit", "code", "2"]
    assert rows[3][1:] == ["zsh", "a", "3.5", "1", "2", "ok"] and len(rows) == 4
    assert kit(*words, "--format", "zsh").stdout.count("job.log") == 1
    done = kit(*words, "--format", "fish")
    assert done.returncode == 2 and "job.log: no timed run of fish in it" in done.stderr
    assert not store.exists()


def test_a_run_without_a_name_is_not_left_out(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(PERF_ONE + PERF_TABLE + "real 7\nuser 1\nsys 1\n")
    assert imported(kit, tmp_path, tmp_path / "log.txt")["log"] == [7.0]


def test_the_kit_reads_what_it_exports() -> None:
    session = night(1, 0.05)
    assert reals(render_hyperfine([session])) == reals(render_hyperfine_1([session]))
    assert len(reals(render_hyperfine([session]))) == 8
    assert len(reals(render_pytest_benchmark([session]))) == 8 * 3


def imported(kit: Kit, tmp_path: Path, *words: str | Path) -> dict[str, list[float]]:
    """The runs of each arm after kit import."""
    done = kit("import", *words, "--json", tmp_path / "out.json", "--store", f"sqlite:///{tmp_path}/kit.db")
    assert done.returncode == 0, done.stderr
    assert "full log: \n" not in done.stdout
    found: dict[str, list[float]] = {}
    for row in json.loads((tmp_path / "out.json").read_text())["samples"]:
        assert row["kind"] == "imported"
        found.setdefault(row["arm"], []).append(row["real"])
    return found


def test_import_takes_arms_from_names(kit: Kit, tmp_path: Path) -> None:
    path = tmp_path / "both.json"
    path.write_text(json.dumps(HYPERFINE))
    assert imported(kit, tmp_path, str(path)) == {"make": [1.4, 1.6], "docker run mine make": [2.0], "false": [0.1]}
    by_pattern = imported(kit, tmp_path, str(path), "--arm-pattern", "^(docker|make)")
    assert by_pattern == {"make": [1.4, 1.6], "docker": [2.0]}
    assert imported(kit, tmp_path, f"here={path}", "--arm-pattern", "^make") == {"here": [1.4, 1.6]}


def test_a_file_of_one_name_is_labelled_by_its_own(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "bare.txt").write_text(PERF_TABLE)
    (tmp_path / "layer.txt").write_text(PERF_MEAN)
    found = imported(kit, tmp_path, str(tmp_path / "bare.txt"), str(tmp_path / "layer.txt"))
    assert {arm: len(runs) for arm, runs in found.items()} == {"bare": 3, "layer": 1}


def test_a_label_is_one_arm(kit: Kit, tmp_path: Path) -> None:
    path = tmp_path / "both.json"
    path.write_text(json.dumps(HYPERFINE))
    for words, says in (
        ((f"a={path}",), "3 names for the label 'a'"),
        ((str(path), "--arm-pattern", "("), "--arm-pattern (: "),
        ((str(path), "--arm-pattern", "nosuch"), "no run has a name that matches"),
    ):
        done = kit("import", *words, "--store", f"sqlite:///{tmp_path}/kit.db")
        assert done.returncode == 2 and says in done.stderr, done.stderr
    path.write_text(json.dumps(HYPERFINE).replace('"make"', json.dumps("make " + "x" * 200)))
    assert "too long for the name of an arm" in kit("import", path, "--store", f"sqlite:///{tmp_path}/kit.db").stderr


def test_a_secret_in_a_command_is_left_out(kit: Kit, tmp_path: Path) -> None:
    path = tmp_path / "both.json"
    path.write_text(json.dumps(HYPERFINE).replace('"make"', '"curl -u me:hunter2 x\\u001b"'))
    assert "hunter2" not in str(imported(kit, tmp_path, str(path)))
