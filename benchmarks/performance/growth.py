"""Statistics and report over 1,000, 100,000 and 1,000,000 samples: seconds, memory, and both per sample.

    python benchmarks/performance/growth.py [--sizes 1000,100000,1000000]

A sample is one run of one arm with one phase. Time is that of analysing the session and rendering the table and the
sentences, process CPU and wall; memory is what the peak rises by, from a process of its own for each size.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

from kit.analysis.session.analyse import analyse
from kit.model.sample import Phase, Sample
from kit.model.session import Request, Session
from kit.report import render

ARMS = ("bare", "bare+control", "runtime:overlay2", "bind:overlay2", "layer:overlay2")
SIZES = "1000,100000,1000000"


def phase(real: float) -> Phase:
    return Phase("build", "ok", real, real, real / 4, real, real / 4, real / 50, 0.1, flush_cpu=0.01, steal=0.0)


def session(size: int) -> Session:
    rng = np.random.default_rng(1)
    real = rng.lognormal(2, 0.02, size).tolist()
    digests = (("image", "a"), ("probe", "b"), ("scenario", "c"))
    samples = tuple(
        Sample(
            ARMS[i % 5], i // 5 + 1, "measured", "ok", float(i), (phase(value),), 0.004, 0.004, 0.05, 0.05,
            digests=digests,
        )
        for i, value in enumerate(real)
    )  # fmt: skip
    pairs = tuple((arm, "bare") for arm in ARMS[1:])
    return Session("x", 0.0, "0", "growth", "done", Request(), ARMS, pairs, 1, samples=samples)


def one(size: int) -> None:
    made = session(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.monotonic(), time.process_time()
    analysis = analyse(made)
    text = render("full", made, analysis) + render("explain", made, analysis)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    rise = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert "layer:overlay2 / bare" in text
    print(f"{wall} {cpu} {rise}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES, help="three")
    parser.add_argument("--one", type=int, help="in this process, figures alone")
    arguments = parser.parse_args()
    if arguments.one:
        one(arguments.one)
        return
    rows = []
    for size in map(int, arguments.sizes.split(",")):
        words = subprocess.run(
            [sys.executable, __file__, "--one", str(size)], check=True, capture_output=True, text=True
        ).stdout
        wall, cpu, rise = map(float, words.split())
        rows.append((size, wall, rise))
        figures = f"{wall:7.3f} s wall, {cpu:7.3f} s CPU, {wall / size * 1e6:8.2f} µs per sample"
        print(f"{size:9,} samples: {figures}, memory +{rise:6.1f} MiB, {rise * 2**20 / size:7.0f} bytes per sample")
    (_, small, _), (middle, time_middle, memory_middle), (large, time_large, memory_large) = rows
    ratio = (time_large / large) / (time_middle / middle)
    room = (memory_large / large) / (memory_middle / middle)
    print(f"time per sample, the largest against the next: {ratio:.2f}; memory: {room:.2f}; fixed about {small:.2f} s")
    sys.exit(time_large > 5 or ratio > 1.25 or room > 1.25)


if __name__ == "__main__":
    main()
