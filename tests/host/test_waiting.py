"""The wait for what a started process makes."""

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kit.host.command import died, spawn, stop
from kit.host.waiting import NotReadyError, retry, wait_for


def started(tmp_path: Path, script: str) -> "subprocess.Popen[bytes]":
    with (tmp_path / "log").open("wb") as output:
        return spawn(["sh", "-c", script], output=output)


def test_it_ends_with_what_was_found(tmp_path: Path) -> None:
    made = tmp_path / "made"
    process = started(tmp_path, f"sleep 0.1; echo here > {made}.new; mv {made}.new {made}; exec sleep 60")
    try:
        found = wait_for(lambda: made.read_text() if made.exists() else "", partial(died, process), 30)
        assert found == "here\n"
    finally:
        stop(process)


def test_the_end_of_the_process_is_the_reason(tmp_path: Path) -> None:
    for script, reason in (("exit 3", "exit status 3"), ("kill -9 $$", "killed by signal 9")):
        process = started(tmp_path, script)
        with pytest.raises(NotReadyError, match=f"^{reason}$"):
            wait_for((tmp_path / "never").exists, partial(died, process), 30)


def test_patience_ends(tmp_path: Path) -> None:
    with pytest.raises(NotReadyError, match=r"^not ready after 0\.02 s$"):
        wait_for((tmp_path / "never").exists, str, 0.02)


def test_retries_what_passes_and_nothing_else() -> None:
    def fail(*messages: str) -> Callable[[], str]:
        left = list(messages)

        def act() -> str:
            if left:
                raise ValueError(left.pop(0))
            return "done"

        return act

    def passes(error: ValueError) -> bool:
        return str(error) == "busy"

    assert retry(fail("busy", "busy"), ValueError, passes, 5) == "done"
    for act, patience, says in ((fail("busy", "broken"), 5, "broken"), (fail(*["busy"] * 9), 0.05, "busy")):
        with pytest.raises(ValueError, match=says):
            retry(act, ValueError, passes, patience)
