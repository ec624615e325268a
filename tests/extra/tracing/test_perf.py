"""Tests of perf itself, if it is installed: its records, and the reason if it records nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.extra.tracing.analysis.stacks import by_function, by_part
from kit.extra.tracing.perf import find_perf_tracer
from kit.host.cgroup.cgroup import Cgroup
from kit.model.profile import WORKLOAD
from kit.model.sample import Phase
from kit.session.measure.tracer import Traced
from tests.leftovers import group_of_test


def test_without_perf_its_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    tracer, level = find_perf_tracer(tmp_path)
    assert tracer is None and not level.works
    assert level.reason == "perf is not installed" and level.fix.startswith("install linux-perf, or what your")


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("Error:\nAccess to it is limited.\nConsider perf_event_paranoid\nsetting is 2\n", "perf_event_paranoid=-1"),
        ("unknown option `buildid-mmap'\n\n Usage: perf record\n", "use a perf and a kernel from 5.12 on: "),
    ],
)
def test_a_refusal_is_one_line_with_its_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, fix: str
) -> None:
    program = tmp_path / "perf"
    program.write_text(f"#!/bin/sh\n[ $1 = stat ] && echo 0,,cycles && exit\ncat >&2 <<'END'\n{said}END\nexit 129\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tracer, level = find_perf_tracer(tmp_path)
    assert tracer is None and fix in level.fix
    assert level.reason == f"perf: {said.removeprefix('Error:').strip().splitlines()[0]}"


@contextmanager
def group(name: str) -> Iterator[Cgroup]:
    made = Cgroup.named(group_of_test(name)).create()
    try:
        yield made
    finally:
        made.remove()


#: Half a second of CPU or so, in the kernel and out of it, by children that have left the tree.
_WORK = "read go; for i in 1 2; do setsid sh -c 'dd if=/dev/zero of=/dev/null bs=1M count=8000; exit' & done; wait"


@pytest.mark.machine
def test_the_stacks_hold_the_cpu_that_the_control_group_counts(tmp_path: Path) -> None:
    with group("session") as session, group("workload") as workload:
        tracer, level = find_perf_tracer(tmp_path)
        if tracer is None:
            pytest.skip(f"{level.reason}: {level.fix}")
        process = subprocess.Popen(["sh", "-c", _WORK], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        workload.adopt(process.pid)
        before = workload.cpu()
        with tracer.around(Traced("bare", 1, "run", workload, session, tmp_path, tmp_path / "log")) as recording:
            process.communicate(b"go\n")
            after = workload.cpu()
        assert not session.pids()  # perf is gone
        (profile,) = recording.add_to(Phase("run", "ok")).profiles
        assert before and after
        counted = after.user + after.sys - before.user - before.sys
        stacks = profile.stacks()
        mine = {stack: seconds for stack, seconds in stacks.items() if stack[0] == WORKLOAD}
        assert by_part(stacks)[(WORKLOAD,)] == pytest.approx(counted, rel=0.15, abs=0.05)
        assert {stack[1] for stack in mine} >= {"dd"}
        assert by_function(mine)["ksys_read",] > 0.2 * counted
        assert sorted(path.name for path in tmp_path.iterdir()) == ["perf.err"]
