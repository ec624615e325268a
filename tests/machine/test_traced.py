"""A session with traced rounds, through the command line; and what tracers leave behind after SIGKILL."""

import io
import json
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.host.cgroup.cgroup import UNIFIED, Cgroup, hierarchies
from kit.host.command import which
from tests.command_line import Kit
from tests.leftovers import group_of_test
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]
#: Holds a tracer until it is killed.
HOLDER = """
import sys, time
from pathlib import Path
from kit.host.cgroup.cgroup import Cgroup
from kit.host.namespace import enter_private_mounts
from kit.extra.tracing.bpftrace import with_tracefs
from kit.extra.tracing.calls import CallTracer
from kit.extra.tracing.perf import find_perf_tracer
from kit.session.measure.tracer import Traced
kind, scratch, session = sys.argv[1], Path(sys.argv[2]), Cgroup.named(sys.argv[3])
enter_private_mounts()
with_tracefs()
tracer = CallTracer(fuse=False) if kind == "bpftrace" else find_perf_tracer(scratch)[0]
with tracer.around(Traced("bare", 1, "run", session, session, scratch, scratch / "log")):
    print("holds", flush=True)
    time.sleep(60)
"""
#: Changes files of lower layers: appends to nine, changes the mode of one, renames one. Then work that perf sees.
CHANGES = """
set -e
for i in 1 2 3 4 5 6 7 8 9; do echo >> /data/$i; done
chmod o-r /data/10
mv /data/11 /data/moved
for i in $(seq 300); do ls -lR /bin > list; done
"""
SIZES = [100 * 3**number for number in range(11)]


@pytest.fixture
def session() -> Iterator[str]:
    """The name of a control group as a session has it before an engine starts: not in every hierarchy of a hybrid."""
    name = group_of_test("traced")
    made = Cgroup.named(name).create()
    yield name
    made.remove()


@pytest.mark.parametrize("tool", ["bpftrace", "perf"])
def test_a_tracer_dies_with_the_kit(tool: str, tmp_path: Path, session: str) -> None:
    """And with it all that it has loaded, which hangs on its open files."""
    if not which(tool):
        pytest.skip(f"needs {tool}")
    words = [sys.executable, "-c", HOLDER, tool, str(tmp_path), session]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdout.readline() == "holds\n"
        (child,) = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
        assert Path(f"/proc/{child}/comm").read_text() == f"{tool}\n"
        assert f"/{session}\n" in Path(f"/proc/{child}/cgroup").read_text()
        holder.send_signal(signal.SIGKILL)
    stat = Path(f"/proc/{child}/stat")
    wait_until(lambda: not stat.exists() or stat.read_text().split(") ")[1][0] == "Z", 30)


@pytest.fixture
def image(tiny: Path, tmp_path: Path) -> Path:
    """With files that are a lower layer's."""
    made = tmp_path / "with-data.tar"
    shutil.copy(tiny, made)
    with tarfile.open(made, "a") as tar:
        for number, size in enumerate(SIZES, 1):
            entry = tarfile.TarInfo(f"./data/{number}")
            entry.size, entry.mode = size, 0o644
            tar.addfile(entry, io.BytesIO(bytes(size)))
    return made


def test_a_session_says_which_calls_and_functions_cost_what(kit: Kit, image: Path, tmp_path: Path) -> None:
    if missing := [tool for tool in ("bpftrace", "perf") if not which(tool)]:
        pytest.skip(f"needs {' and '.join(missing)}")
    assert UNIFIED in hierarchies()
    words = ("--image", image, "--arms", "bare,layer:overlay2", "--rounds", "1", "--cache", "cold", "--size", "3G")
    traced_too = ("--no-control", "--no-rerun", "--explain-calls", "--profile", "--json", "-")
    done = kit("compare", *words, *traced_too, "--", "sh", "-c", CHANGES)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    traced = [row for row in found["traced"] if row["arm"] == "layer:overlay2"]
    assert [row["status"] for row in traced] == ["ok"] * 3
    assert {row["kind"] for row in found["samples"]} == {"measured"}
    for row in traced:
        (files,) = [call for call in row["calls"] if (call["kind"], call["name"]) == ("copy-up", "file")]
        assert (files["count"], files["bytes"]) == (11, sum(SIZES))
    (whole,) = found["calls"]
    assert whole["arm"] == "layer:overlay2" and whole["copied"]["files"] == 11
    assert "11 files, " in kit("show", "last", "--calls").stdout
    functions = kit("show", "last", "--profile").stdout
    assert "CPU of the whole machine, 3 traced rounds: " in functions
    assert max(map(len, functions.splitlines())) <= 100
    workload = next(line.split() for line in functions.splitlines() if line.startswith("workload"))
    assert float(workload[1]) > 0.02
    page = tmp_path / "report.html"
    assert kit("report", "last", "-o", page).returncode == 0
    text = page.read_text()
    assert text.count('<svg role="group" class="flame') == 2 and 'data-name="ovl_' in text
