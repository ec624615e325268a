"""Workloads that print without end cost disk while they run, and neither memory nor disk afterwards."""

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from kit.model.scenario import Command
from kit.session.measure.phase_log import HEAD, MOST_REPORT, TAIL, cut_middle, last_lines, output_since
from tests.fake_engine import FakeEngine, execute, scenario

pytestmark = pytest.mark.usefixtures("calm")

LONG = 400 << 20


def grow(path: Path, size: int, end: bytes) -> None:
    """A file with a beginning and an end, and a hole between."""
    with path.open("wb") as file:
        file.write(b"begun\n")
        os.ftruncate(file.fileno(), size - len(end))
        file.seek(0, 2)
        file.write(end)


def test_a_run_that_printed_400_megabytes_and_failed_costs_neither_memory_nor_disk(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, flood=LONG)
    plan = make_plan(parse_arms("bare"), SessionOptions(rounds=1, seed=3, cache="cold"))
    tracemalloc.start()
    try:
        session, _ = execute(tmp_path, engine, plan, scenario("fail"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (sample,) = session.samples
    assert sample.error.endswith("\n  | two") and len(sample.error) < 5000
    assert peak < 64 << 20
    kept = Path(sample.log).read_bytes()
    assert len(kept) < HEAD + TAIL + 100
    assert kept.startswith(b"prepared\n") and kept.endswith(b"one\ntwo\n") and b"[\xe2\x80\xa6 384 MiB cut out" in kept


def test_what_is_short_is_kept_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * (HEAD + TAIL))
    cut_middle(log)
    assert log.stat().st_size == HEAD + TAIL
    cut_middle(tmp_path / "none")


def test_the_end_is_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    grow(log, HEAD + 2 * TAIL, b"last\n")
    with log.open("r+b") as file:
        file.seek(HEAD + TAIL)
        file.write(bytes(range(256)) * (TAIL // 256 - 1))
        end = log.read_bytes()[-TAIL:]
    cut_middle(log)
    assert log.read_bytes()[-TAIL:] == end


def test_last_lines_of_whatever(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a\nb\nc\xff\n\n")
    assert last_lines(log, 2) == ["b", "c\ufffd"]
    log.write_bytes(b"")
    assert last_lines(log, 2) == []
    log.write_bytes(b"x" * LONG_LINE)
    assert [len(line) for line in last_lines(log, 2)] == [500]


LONG_LINE = 1 << 20


def test_figures_are_looked_for_in_what_can_be_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"before\nkit: a = 1\n")
    assert output_since(log, 7) == "kit: a = 1\n"
    grow(log, MOST_REPORT + 100, b"")
    assert len(output_since(log, 0)) == MOST_REPORT


def test_figures_in_a_flood_are_an_error_of_that_run(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, flood=LONG)
    plan = make_plan(parse_arms("bare"), SessionOptions(rounds=1, seed=3, cache="cold"))
    work = replace(scenario("one"), phases=(Command("one", ("one",), report="lines"),))
    session, _ = execute(tmp_path, engine, plan, work)
    assert (
        "one: the figures that it reports can't be read as lines: it printed more than 16 Mi"
        in session.samples[0].error
    )
