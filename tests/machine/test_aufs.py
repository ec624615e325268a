"""The union that Docker began with, beside its other drivers: a session in a User-Mode Linux 6.1 that has them all."""

import json
from pathlib import Path

import pytest

from kit.host.command import run
from tests.command_line import Kit
from tests.inputs import given
from tests.leftovers import left_on_machine

DRIVERS = {"aufs": "aufs", "devicemapper": "xfs", "overlay2": "overlay"}  # what the root is, by its driver
ARMS = ("bare", *(f"{placement}:{driver}" for driver in DRIVERS for placement in ("bind", "layer")))
#: Small files and what is mounted: this kernel has no seccomp mode, a process costs many times what it costs elsewhere.
SCRIPT = (
    "while read -r source path kind rest; do echo $path $kind; done < /proc/mounts; "
    "i=0; while [ $i -lt 100 ]; do echo $i > f$i; i=$((i+1)); done; cat f* > all; rm f*"
)


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """Unpacked; skips where it would crash."""
    if "amx_tile" in Path("/proc/cpuinfo").read_text():
        pytest.skip("User-Mode Linux 6.1 dies on a CPU with AMX, whose state is larger than its buffer: another CPU")
    packed = given("linux-6.1-aufs-uml.zst")
    unpacked = tmp_path / "linux"
    run(["zstd", "-dq", packed, "-o", unpacked])
    unpacked.chmod(0o755)
    return unpacked


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_one_session_has_aufs_devicemapper_and_overlay2(
    kit: Kit, uml: None, kernel: Path, tiny: Path, tmp_path: Path
) -> None:
    done = kit(
        "compare", "--guest", "uml", "--kernel", kernel, "--image", tiny, "--arms", ",".join(ARMS), "--rounds", "1",
        "--cache", "cold", "--no-rerun", "--size", "2G", "--json", tmp_path / "out.json", "--", "sh", "-c", SCRIPT,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    facts, samples = found["session"]["facts"], found["samples"]
    assert found["session"]["not_run"] == [] and facts["kernel"].startswith("6.1.")
    assert "Dirperm1 Supported: true" in facts["aufs on ext4"]
    assert {row["arm"] for row in samples} == set(ARMS)
    assert all(row["status"] == "ok" and row["real"] > 0 for row in samples)
    for row in samples:
        mounts = dict(line.split() for line in Path(row["log"]).read_text().splitlines())
        placement, _, driver = row["arm"].partition(":")
        assert mounts.get("/") == DRIVERS.get(driver), row["arm"]
        assert ("/build" in mounts) == (placement != "layer"), row["arm"]
    assert left_on_machine() == []
