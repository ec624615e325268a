"""Tests of the states of a control group's tasks, with real ones."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from kit.host.cgroup.cgroup import Cgroup
from kit.host.cgroup.freezer import waits
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]
LOOP = "while :; do :; done"


@pytest.fixture
def group() -> Iterator[Cgroup]:
    made = Cgroup.named(f"kit-test-states-{os.getpid()}").create()  # one for each worker
    yield made
    made.remove()


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ((LOOP,), False),
        (("exec sleep 100",), True),
        ((LOOP, "exec sleep 100"), True),  # whoever sleeps for a time does so beside others too
        ((LOOP, "read word"), False),  # waits for another process: here for the test, in a build for its own
        (("read word",), True),
    ],
)
def test_whether_a_group_waits(group: Cgroup, commands: tuple[str, ...], expected: bool) -> None:
    processes = [subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE) for command in commands]
    for process in processes:
        for file in group.procs:
            file.write_text(str(process.pid))
    wait_until(lambda: waits([group]) == expected)
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdin
        process.stdin.close()


def test_an_empty_group_waits(group: Cgroup) -> None:
    assert waits([group])
