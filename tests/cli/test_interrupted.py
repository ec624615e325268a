"""What a command prints last after Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from kit import cli
from kit.cli.streams import UnmeasuredError
from kit.core import exit_code
from kit.host.lock import machine_lock

KEPT = "; what was measured is kept: kit show last"


def test_a_command_that_measures_nothing_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    held = tmp_path / "run"
    held.mkdir()
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("kit.core.paths._LOCK", held)
    monkeypatch.setattr(sys, "argv", ["kit", "clean", "--wait"])
    interrupt = threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGINT))
    with machine_lock(held, "first"):
        interrupt.start()
        assert cli._run() == exit_code.INTERRUPTED
    assert capfd.readouterr().err.rstrip().endswith("kit: interrupted")


@pytest.mark.parametrize(
    ("words", "error", "kept"),
    [
        (("compare", "smoke"), KeyboardInterrupt(), KEPT),
        (("compare", "smoke"), UnmeasuredError(), ""),
        (("-q", "nightly", "n.toml"), KeyboardInterrupt(), KEPT),
        (("image", "build", "smoke"), KeyboardInterrupt(), ""),
        (("doctor",), KeyboardInterrupt(), ""),
    ],
)
def test_only_what_was_measured_is_said_to_be_kept(
    words: tuple[str, ...], error: BaseException, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kit", *words])
    assert cli._what_is_kept(error, " --store x") == (kept and f"{kept} --store x")
