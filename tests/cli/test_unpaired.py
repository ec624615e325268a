"""Imported runs of tools that do not pair them: all count, and the first label is the reference everywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import in_fork as kit

TEN = [10.0 + number / 100 for number in range(10)]
THIRTY = [*TEN, *(15.0 + number / 100 for number in range(20))]


def times(path: Path, seconds: list[float]) -> Path:
    path.write_text("".join(f"real {value}\nuser 1\nsys 0\n" for value in seconds))
    return path


class Import:
    """An imported session, as its screens and its JSON show it."""

    def __init__(self, tmp_path: Path, *words: str) -> None:
        self._store = ("--store", f"sqlite:///{tmp_path}/kit.db")
        done = kit("import", *words, *self._store)
        assert done.returncode == 0, done.stderr
        self.screen = done.stdout

    def show(self, *words: str) -> str:
        return kit("show", "last", *words, *self._store).stdout

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.show("--format", "json"))
        return document


def test_unequal_numbers_of_runs_all_count(tmp_path: Path) -> None:
    results = [
        {"command": name, "mean": sum(runs) / len(runs), "times": runs}
        for name, runs in (("make", TEN), ("docker run mine make", THIRTY))
    ]
    path = tmp_path / "both.json"
    path.write_text(json.dumps({"results": results}))
    session = Import(tmp_path, str(path))
    assert "10 to 30 unpaired runs of each" in session.screen
    (real,) = [item for item in session.document["comparisons"] if item["metric"] == "real"]
    assert real["ratio"] == pytest.approx(1.3352, abs=1e-4) and real["unpaired"] and real["verdict_all"] == "more"
    rows = {row["arm"]: row for row in session.document["rankings"][0]["rows"]}
    assert rows["make"]["seconds"] == pytest.approx(10.045)
    assert rows["docker run mine make"]["seconds"] == pytest.approx(13.4117, abs=1e-4)
    assert session.document["rankings"][0]["unpaired"]
    assert "33.5 %" in session.show("--explain")
    for words in ("--full",), ("--explain",):
        assert "unpaired" in session.show(*words)


def test_the_mean_is_that_of_all_ten_runs(tmp_path: Path) -> None:
    few, many = times(tmp_path / "few.txt", [10.1, 10.2, 10.3]), times(tmp_path / "many.txt", [10.5] * 3 + [19.5] * 7)
    session = Import(tmp_path, str(few), str(many))
    rows = {row["arm"]: (row["typical"], row["n"]) for row in session.document["rankings"][0]["rows"]}
    assert rows["few"] == (pytest.approx(10.2), 3) and rows["many"] == (pytest.approx(16.8), 10)


def test_failed_runs_are_named_and_counted(tmp_path: Path) -> None:
    results = [
        {"command": "a", "mean": 32.3, "times": [10.0, 10.1, 10.2, 99.0], "exit_codes": [0, 0, 0, 1]},
        {"command": "b", "mean": 12.1, "times": [12.0, 12.1, 12.2], "exit_codes": [0, 0, 0]},
    ]
    path = tmp_path / "both.json"
    path.write_text(json.dumps({"results": results}))
    session = Import(tmp_path, str(path))
    assert "3 unpaired runs of each, 1 failed" in session.screen and "Failed: a, run 4" in session.screen


def test_runs_pair_by_order_where_the_user_says_so(tmp_path: Path) -> None:
    drifting = [10.0, 12.0, 14.0, 17.0]
    one, two = times(tmp_path / "a.txt", drifting), times(tmp_path / "b.txt", [11.0, 13.2, 15.4, 18.7])
    paired = Import(tmp_path, str(one), str(two), "--paired")
    assert "4 rounds" in paired.screen and "unpaired" not in paired.screen + paired.show("--full")
    (real,) = [item for item in paired.document["comparisons"] if item["metric"] == "real"]
    assert not real["unpaired"] and real["low"] == pytest.approx(1.1) == real["high"]
    (real,) = [
        item for item in Import(tmp_path, str(one), str(two)).document["comparisons"] if item["metric"] == "real"
    ]
    assert real["unpaired"] and real["low"] < 1 < real["high"]


def test_pairs_of_perfgate_stay_pairs(tmp_path: Path) -> None:
    halves = [{"wall_ms": wall, "exit_code": 0, "timed_out": False} for wall in (1000, 1100, 2000, 2200, 3000, 3300)]
    pairs = [
        {"pair_index": number, "warmup": False, "baseline": halves[2 * number], "current": halves[2 * number + 1]}
        for number in range(3)
    ]
    file = tmp_path / "paired.json"
    file.write_text(json.dumps({"schema": "perfgate.paired.v1", "bench": {"name": "make"}, "samples": pairs}))
    (real,) = [item for item in Import(tmp_path, str(file)).document["comparisons"] if item["metric"] == "real"]
    assert not real["unpaired"] and real["low"] == pytest.approx(1.1) == real["high"]


@pytest.mark.parametrize("named", ["", "a", "layer:btrfs"])
def test_the_baseline_is_the_named_label_else_the_first(named: str, tmp_path: Path) -> None:
    words = [
        f"{label}={times(tmp_path / f'{number}.txt', [cost, cost + 0.1, cost + 0.2])}"
        for number, (label, cost) in enumerate((("a", 10.0), ("layer:overlay2", 12.0), ("layer:btrfs", 9.0)))
    ]
    session = Import(tmp_path, *words, *(["--baseline", named] if named else []))
    first = named or "a"
    assert f"vs {first} " in session.screen and f"vs {first} " in session.show("--full")
    assert session.document["rankings"][0]["reference"] == first
    assert {item["baseline"] for item in session.document["comparisons"]} == {first}
    assert f"of the real time of {first}:" in session.show("--explain")


def test_a_label_says_nothing_of_a_filesystem_or_a_driver(tmp_path: Path) -> None:
    words = [
        f"{label}={times(tmp_path / f'{number}.txt', [10.0 + number, 10.1 + number, 10.2 + number])}"
        for number, label in enumerate(("bare", "runtime", "bind:overlay2", "layer:overlay2", "layer:btrfs", "host"))
    ]
    session = Import(tmp_path, *words)
    every = session.screen + session.show("--full") + session.show("--explain")
    for claim in ("ext4", "and btrfs", "same FS", "writable layer", "tax", "toolchain", "without a container"):
        assert claim not in every


@pytest.mark.parametrize("first", ["zero", "slow"])
def test_a_time_of_zero_has_no_ratio_and_the_reason_is_given(first: str, tmp_path: Path) -> None:
    files = {"zero": times(tmp_path / "zero.txt", [0.0]), "slow": times(tmp_path / "slow.txt", [135.98])}
    session = Import(tmp_path, *map(str, files.values()), "--baseline", first)
    assert f"no ratio to {first} exists, since a time of one of the two is 0" in session.screen
    (real,) = [item for item in session.document["comparisons"] if item["metric"] == "real"]
    assert real["ratio"] is None
