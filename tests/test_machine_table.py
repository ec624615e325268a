"""The table of machines on which the kit has run, and what a guest gets of this machine's package sources."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="the kit is tested without its benchmarks")
sys.path.append(str(ROOT / "benchmarks/users_machine"))

if (ROOT / "benchmarks").is_dir():
    from machine_settings import apt_sources
    from machine_table import PASSED, Machine, Run, machines_line, machines_table, read_table, record

SOURCES = [("http://a/", "bookworm"), ("http://a/", "bookworm-updates"), ("http://b/", "bookworm-security")]


def machine(name: str, *results: str) -> Machine:
    runs = tuple(Run("`make compare`", result, 3) for result in results)
    return Machine(name, "QEMU", "6.12", "systemd 257", "v2", "26.1", "root", "2026-11-28", "0.7.0", runs)


def test_a_machine_replaces_its_earlier_row(tmp_path: Path) -> None:
    path = tmp_path / "machines.json"
    path.write_text("[]")
    for row in (machine("Debian 13", "it failed"), machine("Debian 12", PASSED), machine("Debian 13", PASSED)):
        record(row, path)
    assert read_table(path) == [machine("Debian 13", PASSED), machine("Debian 12", PASSED)]
    record(replace(machine("Debian 13", PASSED), how="hardware"), path)
    assert len(read_table(path)) == 3


def test_what_ran_with_an_earlier_commit_stays_and_names_it(tmp_path: Path) -> None:
    path = tmp_path / "machines.json"
    path.write_text("[]")
    tests = Run('`make test ARGS="-e unit"`', PASSED, 30)
    record(replace(machine("Debian 13", PASSED), kit="0.7.0, abc"), path)
    for _ in range(2):
        record(replace(machine("Debian 13"), kit="0.7.0, def", runs=(tests,)), path)
    (row,) = read_table(path)
    assert row.runs == (Run("`make compare`, of abc", PASSED, 3), tests) and row.kit.endswith("def")


def test_a_machine_on_which_something_failed_is_in_the_table_alone() -> None:
    machines = [machine("Debian 12", PASSED), machine("Debian 13", PASSED, "no arm ran | fix: x")]
    assert machines_line(machines).startswith("It has run on Debian 12 (")
    names = ("Debian GNU/Linux 13.8", "Fedora 43", "Debian GNU/Linux 12.15", "Debian GNU/Linux 13.8")
    line = machines_line([machine(name, PASSED) for name in names])
    assert line.startswith("It has run on Debian 12.15, 13.8 and Fedora 43 (")
    assert "| Debian 13, QEMU | `make compare` | no arm ran \\| fix: x | 3 |" in machines_table(machines)


def test_a_guest_has_the_mirrors_of_this_machine() -> None:
    """Unstable has neither updates nor security."""
    assert apt_sources("trixie", SOURCES) == [
        "deb http://a/ trixie main",
        "deb http://a/ trixie-updates main",
        "deb http://b/ trixie-security main",
    ]
    assert apt_sources("unstable", SOURCES) == ["deb http://a/ unstable main"]
