"""Tests of the restart of a worker after a fatal signal, and of the report of its cause of death."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kit.core.codec import encode_json
from kit.extra.fleet.service.share_runner import ShareRunner
from kit.extra.fleet.share import Share
from kit.model.event import Told
from kit.session.wire.messages import Failed, decode_line, encode_message
from tests.extra.fleet.machines import FIRST, ONE

WORK = """
    import os, signal, sys, time
    from kit.extra.fleet.service import respawn

    def work(died):
        print("began", os.getpid(), died, flush=True)
        if not died:
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60)

    respawn._REST = 0.0
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests may have it ignored
    sys.exit(respawn.guarded(work, lambda text: print("told", text, flush=True)))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_it_is_started_again_and_ends_with_its_guard(number: signal.Signals) -> None:
    words = [sys.executable, "-c", textwrap.dedent(WORK)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as guard:
        assert guard.stdout
        first, told, second = (guard.stdout.readline().split(maxsplit=2) for _ in range(3))
        assert first[0] == second[0] == "began" and first[1] != second[1]
        assert told[0] == "told" and "killed by signal 11 (Segmentation fault) at" in " ".join(told)
        assert "killed by signal 11 (Segmentation fault) at" in second[2]
        guard.send_signal(number)
        assert guard.wait() == {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -9}[number]
        assert guard.stdout.read() == ""  # it is gone, too


def test_what_ends_by_itself_ends_its_guard() -> None:
    imported = "import sys; from kit.extra.fleet.service.respawn import guarded"
    script = f"{imported}; sys.exit(guarded(lambda died: sys.exit(3), print))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")


def test_a_worker_reports_what_it_runs_and_for_what_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = encode_message(Told("waiting for session 20260101-000000-cccc (process 7, since 10:00:00)")).decode()
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nread assignment\ncat <<'EOF'\n{held.rstrip()}\nEOF\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    reports: list[str] = []
    ShareRunner(ONE, str(tmp_path), reports.append).carry("key", encode_json(Share(FIRST)), lambda event: None)
    assert reports == [
        "runs true 20260101-000000-aaaa",
        "true 20260101-000000-aaaa is waiting for session 20260101-000000-cccc (process 7, since 10:00:00)",
        "waits for the next session",
    ]


def test_a_share_that_dies_of_a_signal_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nread assignment\nkill -SEGV $$\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    last = decode_line(ShareRunner(ONE, str(tmp_path)).carry("key", encode_json(Share(FIRST)), print).encode())
    assert isinstance(last, Failed) and last.message == "its process was killed by signal 11 (Segmentation fault)"
