"""A fleet on this machine, as processes of its own: a scheduler, and workers that sleep instead of measuring."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kit.extra.fleet.address import Address, parse_address
from kit.extra.fleet.client.client import fleet_at
from kit.extra.fleet.handshake import AbsentError
from kit.model.machine import Member
from tests.waiting import wait_until

BENCHMARK = Path(__file__).parents[3] / "benchmarks/performance/fleet.py"


@dataclass
class Processes:
    port: int
    stack: ExitStack
    tls: str = ""
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> Address:
        return parse_address(f"127.0.0.1:{self.port}", self.tls)

    def start(self, name: str, *words: str | Path) -> None:
        process = subprocess.Popen([sys.executable, *map(str, words)], stderr=subprocess.DEVNULL)
        self.started[name] = self.stack.enter_context(process)
        self.stack.callback(process.kill)

    def start_scheduler(self) -> None:
        tls = ("--tls", self.tls) if self.tls else ()
        self.start("scheduler", "-m", "kit", "fleet", "scheduler", "--listen", f"127.0.0.1:{self.port}", *tls)

    def start_worker(self, number: int, seconds: float = 0.4, port: int = 0) -> None:
        """``port``: where it finds the scheduler, if not at its own."""
        self.start(f"m{number}", BENCHMARK, "--sleep-as", str(port or self.port), str(number), "1", str(seconds))

    def kill(self, name: str) -> None:
        self.started[name].send_signal(signal.SIGKILL)
        self.started[name].wait()

    def members(self, count: int) -> list[Member]:
        """Return all machines, after they have joined."""
        found: list[Member] = []

        def come() -> bool:
            with suppress(AbsentError), fleet_at(self.address) as fleet:
                found[:] = fleet.members().values()
            return len(found) >= count

        wait_until(come, 120)
        assert len(found) == count
        return found


@pytest.fixture
def processes() -> Iterator[Processes]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ExitStack() as stack:
        yield Processes(port, stack)
