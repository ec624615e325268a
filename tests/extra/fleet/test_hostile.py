"""A machine with a worker's certificate runs no code in the scheduler and in clients, whatever it sends them."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kit.core.errors import AwayError
from kit.extra.fleet.certificates import make_certificates
from kit.extra.fleet.client.client import Ended, Fleet, fleet_at
from kit.extra.fleet.handshake import AbsentError
from kit.extra.fleet.share import Share
from kit.session.wire.messages import Failed
from tests.extra.fleet.machines import FIRST
from tests.extra.fleet.processes import Processes
from tests.waiting import wait_until

pytest.importorskip("distributed", reason="the package distributed is not installed: the extra fleet")

SCRIPT = "tests.extra.fleet.hostile_worker"


@pytest.fixture
def fleet(processes: Processes, tmp_path: Path) -> Processes:
    make_certificates(tmp_path / "tls", 1)
    (tmp_path / "ran").mkdir()
    processes.tls = str(tmp_path / "tls")
    processes.start_scheduler()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(AbsentError), fleet_at(processes.address):
            return processes
    raise AwayError("the scheduler has not come")


def words(fleet: Processes, tmp_path: Path, how: str) -> list[str]:
    return ["-m", SCRIPT, str(fleet.port), fleet.tls, str(tmp_path / "ran"), how]


def ran(tmp_path: Path, *own: int) -> list[str]:
    """What was written, but by the hostile process itself."""
    found = sorted(path.name for path in (tmp_path / "ran").iterdir())
    return [name for name in found if not name.startswith(tuple(f"{pid}-" for pid in own))]


@pytest.mark.promise("a fleet", "A worker's certificate runs no code in the scheduler or in a client.")
def test_no_code_runs_in_the_scheduler(fleet: Processes, tmp_path: Path) -> None:
    subprocess.run([sys.executable, *words(fleet, tmp_path, "scheduler")], check=True, timeout=120)
    assert ran(tmp_path) == []
    with fleet_at(fleet.address) as found:
        assert found.members() == {}


@pytest.mark.promise("a fleet", "A worker's certificate runs no code in the scheduler or in a client.")
@pytest.mark.parametrize("how", ["result", "nested", "error", "number", "event", "warning"])
def test_no_code_runs_in_a_client(
    how: str, fleet: Processes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fleet.start("hostile", *words(fleet, tmp_path, how))
    with fleet_at(fleet.address) as found:
        address = joined(found)
        found.give("share", Share(FIRST), address)
        deadline = time.monotonic() + 60
        while not isinstance(event := found.next(1), Ended):
            assert time.monotonic() < deadline, "the client waits for a share that is over"
        assert isinstance(event.last, Failed)
    assert ran(tmp_path, fleet.started["hostile"].pid) == []
    assert "PRINTED" not in "".join(capfd.readouterr())


def joined(fleet: Fleet) -> str:
    """The address of the one worker."""
    wait_until(fleet.members)
    return next(iter(fleet.members()))
