"""A fleet of real workers on this machine: one is killed in the midst of a session."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kit.core.paths import find_paths
from kit.model.fact import makers
from kit.store import open_store
from tests.command_line import Kit, joined
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]
pytest.importorskip("distributed", reason="the package distributed is not installed: the extra fleet")

NAMES = ("w1", "w2", "w3", "w4")
COMMAND = ("--", "sh", "-c", "echo x > y")


@pytest.fixture
def scheduler(kit: Kit, tmp_path: Path) -> Iterator[tuple[str, dict[str, subprocess.Popen[bytes]]]]:
    """Its address, with the processes of its workers; certificates are in tmp_path/tls."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    assert "needs ca.pem, worker.pem" in kit("fleet", "certificates", tmp_path / "tls").stdout
    with ExitStack() as stack:
        start(stack, "scheduler", "--listen", address, "--tls", tmp_path / "tls")
        found = {}
        for name in NAMES:
            words = ("--home", tmp_path / name, "--name", name, "--class", "here", "--shared")
            found[name] = start(stack, "worker", address, "--tls", tmp_path / "tls", *words)
        while (
            "1 machine (4 workers) of 1 class" not in kit("fleet", "status", address, "--tls", tmp_path / "tls").stdout
        ):
            assert all(process.poll() is None for process in found.values())
        yield address, found


def start(stack: ExitStack, *words: str | Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-m", "kit", "fleet", *map(str, words)], stderr=subprocess.DEVNULL)
    stack.enter_context(process)
    stack.callback(process.terminate)
    return process


def test_a_worker_is_killed_and_nothing_is_lost(
    scheduler: tuple[str, dict[str, subprocess.Popen[bytes]]], tiny: Path, tmp_path: Path, kit: Kit
) -> None:
    address, workers = scheduler
    fleet = ("--fleet", address, "--fleet-tls", str(tmp_path / "tls"))
    words = ("compare", "--image", str(tiny), "--arms", "bare,bare+control", "--no-control", "--rounds", "8", "--split")
    session = subprocess.Popen(
        [sys.executable, "-m", "kit", *words, *fleet, *COMMAND],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert session.stderr
    told = ""
    for line in session.stderr:
        told += line
        if (found := re.match(r"(w\d): \[\d+/\d+\] round", line)) and "was lost" not in told:
            os.kill(worker_of(workers[found[1]]), signal.SIGSEGV)  # its guard begins another
            break
    output, rest = session.communicate(timeout=300)
    assert session.returncode == 0, told + rest
    assert "was lost" in told + rest and re.search(r": 8 (\w+ )?rounds", output)
    store = open_store("", find_paths().data / "kit.db", read_only=True)
    kept = store.get("last")
    store.close()
    runs = sorted((sample.round, sample.arm) for sample in kept.samples)
    assert runs == [(round_, arm) for round_ in range(1, 9) for arm in ("bare", "bare+control")]
    assert set(makers(kept.facts)) == set(range(1, 9)) and kept.facts["class"] == "here"
    assert "disturb each other" in kept.facts["measured together"]
    wait_until_nothing_runs(tmp_path)


def test_the_printed_command_finishes_an_interrupted_session(
    scheduler: tuple[str, dict[str, subprocess.Popen[bytes]]], tiny: Path, tmp_path: Path, kit: Kit
) -> None:
    address, _ = scheduler
    fleet = ("--fleet", address, "--fleet-tls", str(tmp_path / "tls"), "--machines", "2")
    words = ("compare", "--image", str(tiny), "--arms", "bare,bare+control", "--no-control", "--rounds", "6", "--split")
    session = subprocess.Popen(
        [sys.executable, "-m", "kit", *words, *fleet, *COMMAND], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert session.stderr
    told = ""
    for line in session.stderr:
        told += line
        if re.match(r"w\d: \[\d+/\d+\] round", line):
            session.send_signal(signal.SIGINT)
            break
    output, rest = session.communicate(timeout=300)
    assert "w1, w2, w3, w4 are workers of one machine: they disturb each other" in told + rest
    (command,) = re.findall(r"^kit (compare --resume .*)$", joined(output), re.MULTILINE)
    assert command in joined(kit("show", "last").stdout)
    again = kit(*shlex.split(command))
    assert again.returncode == 0, again.stderr
    assert re.search(r": 6 (\w+ )?rounds", again.stdout) and "SHARED MACHINE: w1, w2" in again.stdout
    wait_until_nothing_runs(tmp_path)


def worker_of(guard: subprocess.Popen[bytes]) -> int:
    return int(Path(f"/proc/{guard.pid}/task/{guard.pid}/children").read_text().split()[0])


def wait_until_nothing_runs(home: Path) -> None:
    """What the killed worker had begun ends by itself."""
    wait_until(lambda: not any(str(home).encode() in line for line in commands_and_environments()), 300)


def commands_and_environments() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"kit.extra.fleet.service.agent" in (path / "cmdline").read_bytes():
                yield (path / "environ").read_bytes()
        except OSError:
            continue


def test_no_fleet_without_certificates_beyond_this_machine(kit: Kit) -> None:
    done = kit("fleet", "scheduler", "--listen", "0.0.0.0:0", timeout=60)
    assert done.returncode == 2 and "root there" in done.stderr and os.linesep in done.stderr
