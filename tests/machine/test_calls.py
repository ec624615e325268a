"""Traced calls on the real kernel: whose calls count."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.extra.tracing.calls import CallTracer, find_call_tracer
from kit.host.cgroup.cgroup import UNIFIED, Cgroup
from kit.host.command import spawn, which
from kit.host.namespace import enter_private_mounts
from kit.model.sample import FUSE
from kit.session.measure.tracer import Traced
from tests.leftovers import group_of_test
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]
#: A group below its own, made by an arm's process; one that moves there, and a daemon that has left the tree.
NESTED = """
mkdir $1/below
(sh -c 'echo $$ > '$1'/below/cgroup.procs; exec sh -c "for i in 1 2 3 4 5 6 7; do /bin/true; done"')
(setsid sh -c 'for i in 1 2 3 4 5; do /bin/true; done; touch '$2 &)
while [ ! -e $2 ]; do sleep 0.05; done
"""


@pytest.fixture
def session() -> Iterator[Cgroup]:
    made = Cgroup.named(group_of_test("calls")).create()
    yield made
    made.remove()


@pytest.fixture
def tracer(tmp_path: Path, session: Cgroup) -> CallTracer:
    enter_private_mounts()
    found, level = find_call_tracer(tmp_path, session)
    if found is None:
        pytest.skip(f"no tracing here: {level.reason}")
    return found


def test_groups_within_and_daemons_count_and_others_do_not(tracer: CallTracer, session: Cgroup, tmp_path: Path) -> None:
    group = Cgroup.named(f"{session.paths[UNIFIED].name}/arm").create()
    beside = subprocess.Popen(["sh", "-c", "while :; do /bin/true; done"])
    try:
        about = Traced("bare", 1, "work", group, session, tmp_path, tmp_path / "log")
        words = ["sh", "-ec", NESTED, "sh", str(group.paths[UNIFIED]), str(tmp_path / "done")]
        with (tmp_path / "output").open("wb") as output, tracer.around(about) as recording:
            assert spawn(words, output=output, cgroup_procs=group.procs).wait() == 0, output.name
    finally:
        beside.kill()
        beside.wait()
        group.remove()
    calls = {call.name: call for call in recording.calls}
    started = calls["execve"].count - sum(count for _, count in calls["execve"].errors)
    # setpriv, the script, mkdir, two shells in a chain, seven, setsid, its shell, five, touch, and as many sleeps.
    sleeps = calls["clock_nanosleep"].count
    assert started == 1 + 1 + 1 + 2 + 7 + 2 + 5 + 1 + sleeps
    assert calls["openat, creating"].count >= 1 and not [call for call in recording.calls if call.kind == "lost"]


def test_a_kernel_without_tracepoints_of_fuse_is_traced_too(
    tracer: CallTracer, session: Cgroup, tmp_path: Path
) -> None:
    group = Cgroup.named(f"{session.paths[UNIFIED].name}/arm").create()
    about = Traced("bare", 1, "work", group, session, tmp_path, tmp_path / "log")
    try:
        with (tmp_path / "output").open("wb") as output, CallTracer(fuse=False).around(about) as recording:
            assert spawn(["sleep", "0.05"], output=output, cgroup_procs=group.procs).wait() == 0
    finally:
        group.remove()
    (slept,) = [call for call in recording.calls if call.name == "clock_nanosleep"]
    assert slept.count == 1 and slept.slept > 0 and not slept.daemon


#: Writes more pages than the kernel lets be under way at once (max_background), then into a file that stays open.
WRITES = """
import sys, time
from pathlib import Path
merged, written, synced = map(Path, sys.argv[1:])
(merged / "closed").write_bytes(bytes(16 << 20))
with (merged / "open").open("wb", 0) as file:
    file.write(bytes(4096))
    written.touch()
    while not synced.exists():
        time.sleep(0.05)
"""


def test_requests_that_a_daemon_or_a_worker_sends_count(tracer: CallTracer, session: Cgroup, tmp_path: Path) -> None:
    """The kernel sends what is beyond max_background from the thread that answers, and old pages from a worker. Those
    of another program do not count."""
    if not which("fuse-overlayfs"):
        pytest.skip("needs fuse-overlayfs: apt-get install fuse-overlayfs")
    group = Cgroup.named(f"{session.paths[UNIFIED].name}/arm").create()
    lower, upper, work, merged = (tmp_path / name for name in ("lower", "upper", "work", "merged"))
    for directory in (lower, upper, work, merged):
        directory.mkdir()
    layers = f"lowerdir={lower},upperdir={upper},workdir={work},writeback=1"
    subprocess.run(["fuse-overlayfs", "-o", layers, merged], check=True)
    about = Traced("layer:fuse-overlayfs", 1, "work", group, session, tmp_path, tmp_path / "log")
    written, synced = tmp_path / "written", tmp_path / "synced"
    words = [sys.executable, "-c", WRITES, str(merged), str(written), str(synced)]
    try:
        with (tmp_path / "output").open("wb") as output, tracer.around(about) as recording:
            process = spawn(words, output=output, cgroup_procs=group.procs)
            wait_until(written.exists)
            subprocess.run(["sync", "-f", merged / "open"], check=True)
            with (merged / "another's").open("wb") as another:
                another.write(bytes(4096))
            synced.touch()
            assert process.wait() == 0
    finally:
        subprocess.run(["umount", merged], check=True)
        group.remove()
    writes = {call.name: call.count for call in recording.calls if call.kind == FUSE}
    assert writes["WRITE"] in [16 + 1, 32 + 1, 64 + 1, 128 + 1], writes  # of 1 MiB, older kernels' of less
