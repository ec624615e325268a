"""How fast a machine was, tenth of a second by tenth of a second, while it built.

    python benchmarks/proofs/speed.py 280 > FILE    record this one, which does nothing else: each CPU compiles

What is compiled is a small unit with the system's headers: most of a build's processes are short, and a machine whose
page faults are slow is slow at starting them. A line holds work done in a step, of each CPU, in thousandths of the
mean. ``data/speed.txt.gz`` is of the builds of a 2-core virtual machine in a cloud, both CPUs together.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from kit.analysis.stats.estimators import Floats

STEP = 0.1
RECORDED = Path(__file__).parents[1] / "data/speed.txt.gz"
_HEADERS = ("stdio", "stdlib", "string", "unistd", "math", "time", "errno", "fcntl", "signal", "pthread")


def read(path: Path = RECORDED) -> Floats:
    """Steps x CPUs, of mean 1."""
    speed = np.loadtxt(path, ndmin=2)
    scaled: Floats = speed / speed.mean(axis=0)
    return scaled


def record(seconds: float) -> Floats:
    """Steps x CPUs, of mean 1: each unit of work shared out evenly over the time that it took."""
    cpus = sorted(os.sched_getaffinity(0))
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(len(cpus)) as pool:
        make_unit(Path(directory))
        times = list(pool.map(partial(_compile, Path(directory), end), cpus))
    begin, last = max(found[0] for found in times), min(found[-1] for found in times)
    edges = np.arange(begin, last, STEP)
    speed = np.stack([np.diff(np.interp(edges, found, np.arange(len(found)))) for found in times], axis=1)
    scaled: Floats = speed / speed.mean(axis=0)
    return scaled


def make_unit(directory: Path) -> None:
    chance = random.Random(1)
    lines = [f"#include <{name}.h>" for name in _HEADERS]
    lines += [
        f"int f{i}(int *a, int n) {{ int s = {i}; for (int j = 0; j < n; j++) {{ s += a[j] * {chance.randint(1, 99)};"
        f" if (s % {chance.randint(3, 17)} == 0) a[j] ^= s; }} return s; }}"
        for i in range(4)
    ]
    (directory / "unit.c").write_text("\n".join(lines))


def _compile(directory: Path, end: float, cpu: int) -> list[float]:
    """When each compilation began, and the last one ended, on this CPU."""
    os.sched_setaffinity(0, {cpu})  # of this thread, and of what it starts
    words = ["cc", "-O1", "-c", f"{directory}/unit.c", "-o", f"{directory}/{cpu}.o"]
    times = [time.monotonic()]
    while times[-1] < end:
        subprocess.run(words, check=True)
        times.append(time.monotonic())
    return times


def main() -> None:
    found = record(float(sys.argv[1]))
    print("\n".join(" ".join(f"{1000 * value:.0f}" for value in row) for row in found))


if __name__ == "__main__":
    main()
