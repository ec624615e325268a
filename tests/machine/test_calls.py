"""Traced calls on the real kernel: whose calls count."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.host.cgroup.cgroup import UNIFIED, Cgroup
from kit.host.command import spawn
from kit.host.namespace import enter_private_mounts
from kit.trace.calls import CallTracer, find_call_tracer
from kit.trace.tracer import Traced

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
    made = Cgroup.named(f"kit-test-calls-{os.getpid()}").create()
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
