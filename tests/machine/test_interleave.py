"""Interleaved rounds on the real machine: an arm is frozen while others run, and nothing stays frozen."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Self

import pytest

from kit.core.paths import find_paths
from kit.host.cgroup.cgroup import UNIFIED, Cgroup, hierarchies
from kit.host.cgroup.freezer import Freezer
from tests.command_line import Kit
from tests.leftovers import group_of_test, left_on_machine
from tests.waiting import wait_until

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
    name = group_of_test("freezer")
    made = Cgroup({kind: found[kind] / name for kind in (request.param, "cpuacct") if kind in found})
    try:
        for path in made.paths.values():
            path.mkdir()
        yield made
    finally:
        made.remove()


@pytest.fixture
def busy(group: Cgroup) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    for file in group.procs:
        file.write_text(str(process.pid))
    yield process
    group.thaw()
    process.kill()
    process.wait(60)


def cpu_of(process: subprocess.Popen[bytes]) -> int:
    return sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def test_what_is_frozen_gets_no_cpu_until_it_goes_on(group: Cgroup, busy: subprocess.Popen[bytes]) -> None:
    freezer = Freezer.of(group)
    freezer.freeze()
    before = cpu_of(busy)
    time.sleep(0.2)
    assert cpu_of(busy) == before
    freezer.thaw()
    wait_until(lambda: cpu_of(busy) > before, 30)


def test_what_is_frozen_dies_with_its_group(group: Cgroup, busy: subprocess.Popen[bytes]) -> None:
    Freezer.of(group).freeze()
    group.kill()
    assert busy.wait(60) == -signal.SIGKILL


def test_a_group_below_is_let_go_too(group: Cgroup) -> None:
    below = replace(group, paths={kind: path / "below" for kind, path in group.paths.items()})
    for path in below.paths.values():
        path.mkdir()
    process = subprocess.Popen(["sleep", "100"])
    for file in below.procs:
        file.write_text(str(process.pid))
    Freezer.of(below).freeze()
    group.kill()
    assert process.wait(60) == -signal.SIGKILL


@pytest.fixture
def union(group: Cgroup, tmp_path: Path) -> Iterator[Path]:
    """A FUSE filesystem whose daemon is in the group."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    branches = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    daemon = subprocess.Popen(["fuse-overlayfs", "-f", "-o", branches, str(tmp_path / "merged")])
    wait_until((tmp_path / "merged").is_mount, process=daemon)
    for file in group.procs:
        file.write_text(str(daemon.pid))
    yield tmp_path / "merged"
    group.kill()
    daemon.wait(60)
    subprocess.run(["umount", str(tmp_path / "merged")], check=True)


def test_a_client_of_a_daemon_in_its_own_group_is_frozen_in_the_end(
    group: Cgroup, union: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can't be frozen while it waits for an answer that the daemon, frozen before it, has not given yet."""
    monkeypatch.setattr("kit.host.cgroup.freezer._TRY", 0.05)
    join = "".join(f"echo $$ > {file}; " for file in group.procs)
    work = "for i in $(seq 20); do echo $i > f; done; for i in $(seq 2000); do :; done"
    script = f"{join} cd {union}; while :; do {work}; done"
    client = subprocess.Popen(["sh", "-c", script])
    freezer = Freezer.of(group)
    for _ in range(5):
        time.sleep(0.05)
        freezer.freeze()
        freezer.thaw()
    client.kill()
    assert client.wait(60) == -signal.SIGKILL


@pytest.mark.unmeasured(clean=True)
def test_interleaved_arms(kit: Kit, tiny: Path) -> None:
    done = kit(*WORDS, "--image", tiny, "--rounds", "2", "--interleave", "0.1s", "--json", "-", "--", "sh", "-c", BUSY)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["session"]["facts"]["slice"] == "0.1 s"
    for phase in found["samples"]:
        assert phase["digests"]["run order"] == "interleaved"
        assert phase["slices"] >= 2 and phase["real"] > 0
        assert phase["voluntary_switches"] is None  # each freeze adds some
        assert phase["involuntary_switches"] is not None
    assert "no voluntary switches" in found["session"]["facts"]
    assert left_on_machine() == []


@pytest.mark.parametrize(
    ("command", "order", "why"),
    [
        (f"{BUSY}; {BUSY}", "interleaved", "a run takes "),
        (f"{BUSY}; {BUSY}; dd if=/dev/zero of=big bs=1M count=600 status=none", "interleaved", "a run takes "),
        (f"{BUSY}; {BUSY}; sleep 0.7", "sequential", "slices would hide "),
        ("true", "sequential", "too short for time slices"),
    ],
)
def test_what_a_command_does_decides(kit: Kit, tiny: Path, command: str, order: str, why: str) -> None:
    """A pilot run finds a command that sleeps for a fifth of its time, and one that is too short. What is written back
    after the command's end is no wait of the command."""
    done = kit(*WORDS, "--image", tiny, "--rounds", "2", "--json", "-", "--", "sh", "-c", command)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)["session"]["facts"]
    assert facts["run order"] == order and why in facts["why run order"], facts["why run order"]


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "daemon",
    [
        ("fuse-overlayfs", "-f", "-o", "lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work", "{0}/merged"),
        ("mergerfs", "-f", "-o", "minfreespace=0,category.create=ff", "{0}/upper:{0}/lower", "{0}/merged"),
        ("unionfs-fuse", "-f", "-o", "cow", "{0}/upper=RW:{0}/lower=RO", "{0}/merged"),
    ],
    ids=lambda words: words[0],
)
def test_no_request_to_a_daemon_fails_when_its_client_is_frozen(
    group: Cgroup, tmp_path: Path, daemon: tuple[str, ...]
) -> None:
    """The kernel sends the daemon an INTERRUPT. One that answers EINTR would make the client's call fail."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    merged = tmp_path / "merged"
    server = subprocess.Popen([word.format(tmp_path) for word in daemon])
    wait_until(merged.is_mount, process=server)
    join = "".join(f"echo $$ > {file}; " for file in group.procs)
    work = "while :; do dd if=/dev/zero of=f bs=1M count=4 conv=fsync status=none; cat f > g; rm f g; done"
    client = subprocess.Popen(["sh", "-ec", f"{join} cd {merged}; {work}"])
    freezer = Freezer.of(group)
    try:
        for number in range(100):
            time.sleep(0.003 * (number % 7))
            freezer.freeze()
            freezer.thaw()
        assert client.poll() is None
    finally:
        client.kill()
        client.wait(60)
        wait_until(lambda: subprocess.run(["umount", merged], check=False).returncode == 0, 60)
        server.wait(60)


#: Waits for 20 ms, for a second, and takes an early return for an error.
WAITS = """
#include <sys/epoll.h>
#include <time.h>
int main(void)
{
	struct epoll_event event;
	int poll = epoll_create1(0);
	for (time_t end = time(0) + 2; time(0) < end;)
		if (epoll_wait(poll, &event, 1, 20) < 0)
			return 1;
	return 0;
}
"""


@pytest.mark.unmeasured
def test_a_workload_that_fails_when_frozen_is_not_interleaved(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    """The kernel ends epoll_wait with EINTR when it freezes a process under cgroup v2."""
    source = tmp_path / "source"
    source.mkdir()
    subprocess.run(["cc", "-static", "-xc", "-o", source / "waits", "-"], input=WAITS, text=True, check=True)
    words = (*WORDS, "--image", tiny, "--rounds", "2", "--no-rerun", "--source", source, "--json", "-")
    done = kit(*words, "--", "./waits")
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads(done.stdout)["session"]["facts"]
    assert facts["run order"] == "sequential" and "EINTR" in facts["why run order"]


#: Files written and read through the arm's own filesystem, three times the same.
FILES = "for i in 1 2 3; do for j in $(seq 100); do echo $j > f$j; done; cat f* | md5sum; rm f*; done"


@pytest.mark.unmeasured(clean=True)
def test_a_daemon_is_frozen_with_its_arm(kit: Kit, tiny: Path) -> None:
    """Daemons are frozen too, what is written is read, and a daemon's CPU is outside its arm's."""
    unions = ("union:unionfs-fuse", "union:mergerfs")
    arms = ("bare", "layer:fuse-overlayfs", "layer:podman/fuse-overlayfs", *unions)
    words = (*WORDS[:-1], ",".join(arms), "--rounds", "1", "--no-rerun", "--image", tiny, "--interleave", "0.1s")
    before = set(groups())
    with Watch() as watch:
        done = kit(*words, "--size", "2G", "--json", "-", "--", "sh", "-c", FILES)
    assert done.returncode == 0, done.stderr
    found = {phase["arm"]: phase for phase in json.loads(done.stdout)["samples"]}
    assert set(found) == set(arms) and not before
    for arm in arms:
        (log,) = (find_paths().data / "logs").glob(f"{watch.session}/*-{re.sub('[:/]', '-', arm)}.log")
        said = log.read_text().splitlines()
        assert len(said) == 3 and len(set(said)) == 1, said  # the same checksum
    assert len(watch.frozen) == 4, watch.frozen
    fuse = [found[arm]["outside"] for arm in arms[1:]]
    assert all(value is None or value > 0.01 for value in fuse)  # None: others keep the machine busy
    assert left_on_machine() == []


class Watch:
    """Looks at the groups of FUSE daemons while the round lasts: ``frozen``: those that have been."""

    def __init__(self) -> None:
        self.frozen: set[str] = set()
        self.session = ""
        self._end = Event()
        self._thread = Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(0.01):
            for path in groups():
                with suppress(OSError):  # removed while we looked
                    self._note(path)

    def _note(self, path: Path) -> None:
        self.session = next(name for name in path.parts if name.startswith("kit-")).removeprefix("kit-")
        programs = [Path(f"/proc/{pid}/comm").read_text() for pid in (path / "cgroup.procs").read_text().split()]
        if (
            any("fuse" in name or "mergerfs" in name for name in programs)
            and "frozen 1" in (path / "cgroup.events").read_text()
        ):
            self.frozen.add(path.name)


@pytest.mark.unmeasured(clean=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_frozen(kit: Kit, tiny: Path, number: signal.Signals) -> None:
    words = [*WORDS[:-1], "bare,layer:fuse-overlayfs", "--image", str(tiny), "--interleave", "0.1s"]
    command = [sys.executable, "-m", "kit", *words, "--", "sleep", "1000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: any((path / "cgroup.freeze").read_text() == "1\n" for path in groups()), 120, process)
    process.send_signal(number)
    assert process.wait(60) == (130 if number == signal.SIGINT else -number)
    undone = kit("clean").stdout
    assert ("removed cgroup" in undone) if number == signal.SIGKILL else undone == "nothing to clean\n"
    assert left_on_machine() == []


def groups() -> list[Path]:
    """Of sessions that this KIT_HOME knows: others run beside them."""
    mount = hierarchies()[UNIFIED]
    names = [path.name for path in (find_paths().data / "logs").glob("*")]
    walks = (os.walk(mount / f"kit-{name}") for name in names)  # passes over what is removed meanwhile
    return [Path(directory) for walk in walks for directory, _, files in walk if "cgroup.freeze" in files]
