"""Peak memory: of processes whose memory is known, and of a group whose peak the kernel can't reset."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kit.host.cgroup.cgroup import Cgroup
from kit.host.cgroup.memory import MemoryWatch, watch_memory

MIB = 1 << 20
#: Allocates as many MiB as each line says, frees them, and answers.
HUNGRY = "for line in open(0): data = bytearray(int(line) << 20); del data; print('done', flush=True)"


def test_the_peak_of_daemons_is_of_the_watch_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HUNGRY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout

        def allocate(mebibytes: int) -> None:
            assert process.stdin and process.stdout
            process.stdin.write(f"{mebibytes}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline() == b"done\n"

        (tmp_path / "cgroup.procs").write_text(str(process.pid))
        daemons = Cgroup({"one": tmp_path})
        allocate(300)
        with watch_memory(None, daemons) as watch:
            allocate(100)
            found = watch.read()
        process.stdin.close()
    assert found.arm_memory is None and found.daemon_memory is not None
    assert 100 * MIB < found.daemon_memory < 150 * MIB
    with watch_memory(None, daemons) as watch:
        assert watch.read().daemon_memory is None  # it has ended


@pytest.mark.parametrize(("earlier", "now", "found"), [(None, 5, 5), (5, 7, 7), (5, 5, None)])
def test_a_peak_that_an_earlier_one_hides_is_not_known(
    tmp_path: Path, earlier: int | None, now: int, found: int | None
) -> None:
    (tmp_path / "memory.peak").write_text(f"{now}\n")
    with (tmp_path / "memory.peak").open("rb") as file:
        assert MemoryWatch(file=file.fileno(), earlier=earlier).read().arm_memory == found
