"""The order of tests, and the images that are built beside them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.beside import TOGETHER, group
from tests.builder import images_of, order
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]

ORDERED = """
import pytest

@pytest.mark.machine
def test_measured_without_image(): pass

@pytest.mark.machine
@pytest.mark.images("kernel", "smoke")
def test_measured(): pass

@pytest.mark.machine
def test_by_fixture(uml): pass

@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_clean(): pass

@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.images("smoke")
def test_unmeasured(): pass

@pytest.mark.machine
@pytest.mark.unmeasured
def test_unmeasured_without_image(): pass

@pytest.mark.images("storage")
def test_quick(): pass
"""


def test_quick_tests_come_first_and_images_in_the_order_of_need(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n  machine\n  unmeasured\n  images(x)\n")
    items = sorted(pytester.getitems(ORDERED), key=order)
    assert [item.name for item in items] == [
        "test_quick", "test_unmeasured_without_image", "test_unmeasured", "test_clean", "test_measured",
        "test_by_fixture", "test_measured_without_image",
    ]  # fmt: skip
    assert images_of(items) == ["smoke", "kernel", "guest", "uml"]


def test_one_worker_runs_what_shares_something_dear() -> None:
    assert [name for name in TOGETHER if not (ROOT / "tests" / name.partition("::")[0]).is_file()] == []
    engines = [f"tests/machine/test_engines.py::{name}" for name in ("TestEveryArm::test_x[bare@xfs]", "test_y")]
    assert {group(nodeid) for nodeid in engines} == {"bench"}
    assert group("tests/machine/test_cli.py::test_x[a/b]") == "tests/machine/test_cli.py::test_x[a/b]"
    guests = ("test_nfs.py::test_server_and_client_in_one_guest", "test_guest.py::test_a_session_in_a_guest")
    assert {group(f"tests/machine/{name}") for name in guests} == {"disks"}


#: Of this run of the tests alone.
SLEEP = f"sleep 4040.{os.getpid()}"
BUILD = """
import time
from pathlib import Path
from tests.builder import building
with building(["smoke"], Path.cwd()):
    time.sleep(1000)
"""


@pytest.mark.machine
@pytest.mark.unmeasured
def test_builds_end_with_the_tests_and_leave_no_mount(tmp_path: Path) -> None:
    """Also where these are killed."""
    program = tmp_path / "bin/mmdebstrap"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nmkdir "$TMPDIR/inside"\nmount -t tmpfs none "$TMPDIR/inside"\ntouch {tmp_path}/begun\n'
        f"exec setsid {SLEEP}\n"
    )
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
           "KIT_HOME": str(tmp_path / "home")}  # fmt: skip
    process = subprocess.Popen([sys.executable, "-c", BUILD], cwd=tmp_path, env=env)
    wait_until(lambda: (tmp_path / "begun").exists() and sleepers(), process=process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not sleepers())
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def sleepers() -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if SLEEP.replace(" ", "\0").encode() in path.read_bytes():
                found.append(path)
        except OSError:
            continue
    return found
