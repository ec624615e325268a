"""A few trials of each part of benchmarks/faults/faults.py; RESULTS.md beside it has the whole campaign's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import Kit
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]

BESIDE_OTHERS = pytest.mark.unmeasured(clean=True)
#: Each part, where, and how many trials.
TRIALS = (
    pytest.param("kill", "union+interleaved", 1, marks=BESIDE_OTHERS),
    pytest.param("kill", "kit-probe under a kit", 1, marks=BESIDE_OTHERS),
    pytest.param("full", "ENOSPC of data", 1, marks=BESIDE_OTHERS),
    pytest.param("time", "clock jumps", 1, marks=BESIDE_OTHERS),
    pytest.param("time", "clock ten years ahead", 1, marks=BESIDE_OTHERS),
    pytest.param("machine", "umask 000", 1),  # beside other tests its mapped container could not mount /proc
    pytest.param("hostile", "hostile inputs beside a user who races", 1, marks=BESIDE_OTHERS),
    pytest.param("two", "three that wait", 1, marks=BESIDE_OTHERS),
    pytest.param("soak", "sessions", 1, marks=BESIDE_OTHERS),
)


@pytest.mark.promise("faults", "A killed kit loses no run that it has reported, and its session goes on.")
@pytest.mark.machine
@pytest.mark.parametrize(("part", "where", "count"), TRIALS)
def test_a_session_survives(part: str, where: str, count: int, kit_home: Path, tiny: Path) -> None:
    home = kit_home.with_name(f"{kit_home.name}-{part}")
    words = [sys.executable, str(ROOT / "benchmarks/faults/faults.py"), part, "--where", where, "--count", str(count)]
    done = subprocess.run(
        [*words, "--home", home, "--image", tiny],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "survived" in done.stdout.splitlines()[-1]


#: Passes for mmdebstrap: works on for long, with a child of its own.
BUILDER = """#!/bin/sh
sleep 1000.5 &
echo built > "$TMPDIR/half"
touch "$STARTED"
sleep 1000.5
"""


@pytest.mark.promise("faults", "What a killed kit has left is removed by the next session or by `kit clean`.")
@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_nothing_of_a_killed_image_build_works_on_or_is_left(kit: Kit, kit_home: Path, tmp_path: Path) -> None:
    home, started = kit_home.with_name(f"{kit_home.name}-image"), Path("/tmp") / f"started-{os.getpid()}"
    (tmp_path / "mmdebstrap").write_text(BUILDER.replace("$STARTED", str(started)))
    (tmp_path / "mmdebstrap").chmod(0o755)
    env = {**os.environ, "KIT_HOME": str(home), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen([sys.executable, "-m", "kit", "image", "build", "smoke"], env=env) as build:
        wait_until(started.exists, process=build)
        build.kill()
    started.unlink()
    search = ["pgrep", "--full", "sleep 1000.5"]
    wait_until(lambda: subprocess.run(search, stdout=subprocess.DEVNULL, check=False).returncode)
    undone = kit("clean", KIT_HOME=str(home)).stdout
    assert "half made" in undone
    assert [path for path in (home / "cache/images").iterdir() if path.is_dir()] == []
