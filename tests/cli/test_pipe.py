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
