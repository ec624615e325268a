"""A command whose reader has gone, as in ``kit scenarios | head -1``: it ends in silence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from kit import cli
from kit.cli.compare import report
from kit.cli.streams import ReaderGoneError
from kit.core.exit_code import INTERRUPTED
from tests.nights import night

#: Progress, then something that lasts.
_PROGRAM = """
import kit.cli, pathlib, sys
from kit.report.text.progress import Lines
def measure(**_):
    for number in range(5000):
        Lines().write(f"[{number}/5000] round 1 bare")
    pathlib.Path(sys.argv[1]).write_text("measured")
kit.cli._check_words, kit.cli.cli.main = (lambda words: None), measure
kit.cli.main()
"""


def run_unread(*words: str, both: bool = False) -> tuple[int, str]:
    """Return the exit code and stderr of a command of which nobody reads stdout, and with ``both`` nor stderr."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kit", *words], stdout=write, stderr=write if both else subprocess.PIPE, text=True
        )
    finally:
        os.close(write)
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize("words", [("scenarios",), ("--help",), ("help", "arms"), ("completion", "bash")])
def test_a_reader_who_has_seen_enough_is_no_error(words: tuple[str, ...]) -> None:
    assert run_unread(*words) == (0, "")


def test_an_error_remains_one_where_nobody_reads_it() -> None:
    assert run_unread("scenarios", both=True)[0] == 0
    assert run_unread("nosuch", both=True)[0] == 2


@pytest.mark.parametrize("full", [False, True])
def test_a_measurement_goes_on_when_nobody_gets_its_progress(full: bool, tmp_path: Path) -> None:
    read, write = (0, os.open("/dev/full", os.O_WRONLY)) if full else os.pipe()
    if read:
        os.close(read)
    done = subprocess.run([sys.executable, "-c", _PROGRAM, tmp_path / "done"], stderr=write)
    os.close(write)
    assert done.returncode == 0 and (tmp_path / "done").read_text() == "measured"


class _Unread:
    """stdout whose reader has gone."""

    def write(self, text: str) -> NoReturn:
        raise ReaderGoneError from BrokenPipeError()

    def flush(self) -> None: ...


@pytest.mark.parametrize("names", [("json",), ("markdown", "json")])
def test_files_are_written_when_nobody_reads_stdout(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs: Mapping[str, str] = dict.fromkeys(names[:-1], "-") | {"json": str(tmp_path / "r.json")}
    monkeypatch.setattr(sys, "stdout", _Unread())
    with pytest.raises(ReaderGoneError):
        report(night(1, 0.05), outputs)
    assert (tmp_path / "r.json").read_text().startswith("{")


def test_an_interrupt_keeps_its_code_when_nobody_reads_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> NoReturn:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            _Unread().write("the answer so far")

    monkeypatch.setattr(cli.cli, "main", interrupted)
    monkeypatch.setattr(sys, "argv", ["kit"])
    assert cli._run() == INTERRUPTED


def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "kit", "schema"]
        env = {**os.environ, "PYTHONUNBUFFERED": ""}
        done = subprocess.run(words, env=env, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "No space left" in done.stderr
        assert subprocess.run([*words, "nosuch"], stdout=full, env=env, stderr=full).returncode == 2


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_unbuffered_output_remains_unbuffered(unbuffered: str) -> None:
    code = "import sys; from kit.cli.streams import take_streams; take_streams(); print(sys.stdout.write_through)"
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{bool(unbuffered)}\n"
