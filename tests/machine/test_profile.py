"""A session with stacks taken in traced rounds, through the command line; and what perf leaves after SIGKILL."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.host.cgroup import Cgroup
from kit.host.command import which
from tests.command_line import Kit

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]
#: Holds a tracer until it is killed.
HOLDER = """
import sys, time
from pathlib import Path
from kit.host.cgroup import Cgroup
from kit.trace.perf import find_perf_tracer
from kit.trace.tracer import Traced
scratch, session = Path(sys.argv[1]), Cgroup.named(sys.argv[2])
tracer, _ = find_perf_tracer(scratch)
with tracer.around(Traced("bare", 1, "run", None, session, scratch, scratch / "log")):
    print("holds", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _perf() -> None:
    if not which("perf"):
        pytest.skip("needs perf: apt-get install linux-perf")


@pytest.fixture
def session() -> Iterator[str]:
    """The name of a control group as a session has it before an engine starts: not in every hierarchy of a hybrid."""
    name = f"kit-test-profile-{os.getpid()}"
    made = Cgroup.named(name).create()
    yield name
    made.remove()


def test_perf_dies_with_the_kit(tmp_path: Path, session: str) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path, session], stdout=subprocess.PIPE, text=True)
    assert holder.stdout and holder.stdout.readline() == "holds\n"
    (child,) = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
    assert Path(f"/proc/{child}/comm").read_text() == "perf\n"
    assert f"/{session}\n" in Path(f"/proc/{child}/cgroup").read_text()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{child}").exists() and Path(f"/proc/{child}/stat").read_text().split(") ")[1][0] != "Z":
        assert time.monotonic() < deadline, "perf outlived the kit"
        time.sleep(0.02)


def test_a_session_says_which_functions_cost_what(kit: Kit, tiny: Path, tmp_path: Path) -> None:
    work = "for i in $(seq 4000); do echo $i > f$i; done"
    done = kit("compare", "--image", tiny, "--arms", "bare,layer:overlay2", "--rounds", "1", "--cache", "cold",
               "--no-control", "--no-repeats", "--profile", "--", "sh", "-c", work)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--profile" in done.stdout.splitlines()[-1]
    said = kit("show", "last", "--profile").stdout
    assert "CPU of the whole machine, 3 traced rounds: " in said and max(map(len, said.splitlines())) <= 100
    row = next(line.split() for line in said.splitlines() if line.startswith("workload"))
    assert float(row[1]) > 0.02
    page = tmp_path / "report.html"
    assert kit("report", "last", "-o", page).returncode == 0
    text = page.read_text()
    assert text.count('<svg role="group" class="flame') == 2 and 'data-name="ovl_' in text
