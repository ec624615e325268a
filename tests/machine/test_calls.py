"""Traced calls on the real kernel: whose calls count, what is left after SIGKILL, and a session with traced rounds."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.host.cgroup import UNIFIED, Cgroup, hierarchies
from kit.host.command import spawn
from kit.host.namespace import enter_private_mounts
from kit.trace.calls import CallTracer, find_call_tracer
from kit.trace.tracer import Traced
from tests.command_line import Kit

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]
#: A group below its own, made by an arm's process; one that moves there, and a daemon that has left the tree.
NESTED = """
mkdir $1/below
(sh -c 'echo $$ > '$1'/below/cgroup.procs; exec sh -c "for i in 1 2 3 4 5 6 7; do /bin/true; done"')
(setsid sh -c 'for i in 1 2 3 4 5; do /bin/true; done; touch '$2 &)
while [ ! -e $2 ]; do sleep 0.05; done
"""
#: Holds a tracer until it is killed.
HOLDER = """
import sys, time
from pathlib import Path
from kit.host.namespace import enter_private_mounts
from kit.trace.bpftrace import attached, with_tracefs
enter_private_mounts()
with_tracefs()
with attached('interval:ms:20 { printf("attached\\\\n"); }', Path(sys.argv[1]), ()):
    print("holds", flush=True)
    time.sleep(60)
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


def test_nothing_stays_loaded_after_a_kill(tracer: CallTracer, tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdout=subprocess.PIPE, text=True)
    assert holder.stdout and holder.stdout.readline() == "holds\n"
    (child,) = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
    assert Path(f"/proc/{child}/comm").read_text() == "bpftrace\n"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and Path(f"/proc/{child}/stat").read_text().split(") ")[1][0] != "Z":
        assert time.monotonic() < deadline, "bpftrace outlived the kit"
        time.sleep(0.02)


def test_a_session_with_traced_rounds_counts_copy_ups(kit: Kit, tracer: CallTracer, tiny: Path, tmp_path: Path) -> None:
    assert UNIFIED in hierarchies()
    image = tmp_path / "image.tar"
    shutil.copy(tiny, image)
    with tarfile.open(image, "a") as tar:
        for number in range(9):
            (tmp_path / "file").write_bytes(bytes(range(256)) * 7 * 4**number)
            tar.add(tmp_path / "file", f"./files/{number}")
    change = "for f in /files/*; do stat -c %s $f; echo >> $f; done"
    done = kit("compare", "--image", image, "--arms", "bare,layer:overlay2", "--rounds", "1", "--cache", "cold",
               "--no-control", "--no-repeats", "--explain-calls", "--json", "-", "--", "sh", "-c", change)  # fmt: skip
    found = json.loads(done.stdout)
    traced = [row for row in found["traced"] if row["arm"] == "layer:overlay2"]
    assert [row["status"] for row in traced] == ["ok"] * 3
    assert {row["kind"] for row in found["samples"]} == {"measured"}
    for row in traced:
        sizes = [int(line) for line in Path(row["log"]).read_text().split()]
        (files,) = [call for call in row["calls"] if (call["kind"], call["name"]) == ("copy-up", "file")]
        assert (files["count"], files["bytes"]) == (9, sum(sizes))
    (whole,) = found["calls"]
    assert whole["arm"] == "layer:overlay2" and whole["copied"]["files"] == 9
    assert "9 files, " in kit("show", "last", "--calls").stdout
