"""A command whose reader has gone, as in ``kit scenarios | head -1``: it ends in silence."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


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
    assert run_unread(*words, both=True)[0] == 0


def test_an_error_remains_one_where_nobody_reads_it() -> None:
    assert run_unread("nosuch", both=True)[0] == 2


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
