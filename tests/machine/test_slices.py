"""Arms by turns on the real machine: who has no turn stands still, and nothing stays frozen."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.paths import find_paths
from kit.host.cgroup import UNIFIED, Cgroup, hierarchies
from kit.host.freezer import Freezer
from tests.command_line import Kit
from tests.conftest import left_on_machine

pytestmark = pytest.mark.machine

WORDS = ("compare", "--cache", "cold", "--size", "1G", "--no-control", "--arms", "bare,layer:overlay2")
#: Loops of a shell on two CPUs, whose time adds up.
BUSY = "for i in 1 2; do (i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done) & done; wait"


@pytest.fixture(params=[UNIFIED, "freezer"])
def group(request: pytest.FixtureRequest) -> Iterator[Cgroup]:
    """With one kind of freezer alone."""
    found = hierarchies()
    if request.param not in found:
        pytest.skip(f"no cgroup hierarchy {request.param}")
    made = Cgroup({kind: found[kind] / "kit-test-freezer" for kind in (request.param, "cpuacct") if kind in found})
    for path in made.paths.values():
        path.mkdir()
    yield made
    made.remove()


@pytest.fixture
def busy(group: Cgroup) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    for file in group.procs:
        file.write_text(str(process.pid))
    yield process
    group.thaw()
    process.kill()
    process.wait(5)


def cpu_of(process: subprocess.Popen[bytes]) -> int:
    return sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def test_what_is_frozen_gets_no_cpu_until_it_goes_on(group: Cgroup, busy: subprocess.Popen[bytes]) -> None:
    freezer = Freezer.of(group)
    freezer.freeze()
    before = cpu_of(busy)
    time.sleep(0.2)
    assert cpu_of(busy) == before
    freezer.thaw()
    deadline = time.monotonic() + 30
    while cpu_of(busy) == before:
        assert time.monotonic() < deadline


def test_what_is_frozen_dies_with_its_group(group: Cgroup, busy: subprocess.Popen[bytes]) -> None:
    Freezer.of(group).freeze()
    group.kill()
    assert busy.wait(5) == -signal.SIGKILL


def test_a_group_below_is_let_go_too(group: Cgroup) -> None:
    below = replace(group, paths={kind: path / "below" for kind, path in group.paths.items()})
    for path in below.paths.values():
        path.mkdir()
    process = subprocess.Popen(["sleep", "100"])
    for file in below.procs:
        file.write_text(str(process.pid))
    Freezer.of(below).freeze()
    group.kill()
    assert process.wait(5) == -signal.SIGKILL


@pytest.mark.unmeasured(clean=True)
def test_arms_by_turns(kit: Kit, tiny: Path) -> None:
    done = kit(*WORDS, "--image", tiny, "--rounds", "2", "--slices", "0.1s", "--json", "-", "--", "sh", "-c", BUSY)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["session"]["facts"]["slices"] == "0.1 s"
    for phase in found["samples"]:
        assert phase["digests"]["slices"] == "0.1 s"
        # A turn ends once all stands still; nothing but the time of turns is in it.
        assert phase["turns"] >= 2 and phase["cgroup_user"] + phase["cgroup_sys"] <= 2.2 * phase["real"]
    assert left_on_machine() == []


@pytest.mark.unmeasured(clean=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_frozen(kit: Kit, tiny: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "kit", *WORDS, "--image", str(tiny), "--slices", "0.1s", "--", "sleep", "1000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not any((path / "cgroup.freeze").read_text() == "1\n" for path in groups()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(60) == (130 if number == signal.SIGINT else -number)
    undone = kit("clean").stdout
    assert ("removed cgroup" in undone) if number == signal.SIGKILL else undone == "nothing to clean\n"
    assert left_on_machine() == []


def groups() -> list[Path]:
    """Of sessions that this KIT_HOME knows: others run beside them."""
    mount = hierarchies()[UNIFIED]
    names = [path.name for path in (find_paths().data / "logs").glob("*")]
    return [path for name in names for path in mount.glob(f"kit-{name}/*") if (path / "cgroup.freeze").exists()]
