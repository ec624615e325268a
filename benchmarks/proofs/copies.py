"""Are copies of one root filesystem the same, and does it draw them anew to read them again?

    sudo python benchmarks/proofs/copies.py [--copies 4] [--blocks 6] [--compilations 60]

In each round every copy compiles one small unit so many times, in an order that is drawn anew each time, entered by
chroot. What is compared is the CPU of the median compilation, which a busy machine changes little: first with the files
where they are, then with all copies given up in the page cache and read again before each round, as a session by turns
does it. Printed are what each copy differs by from the mean of all in a round, how much a copy scatters from round to
round, and F, the variance of copies over that of what rounds alone explain: 1 where copies differ by chance alone.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import speed

from kit.analysis.stats.estimators import Floats
from kit.arms.image import ImageCache, unpack
from kit.core.paths import find_paths
from kit.session.setup.caches import drop_names, forget_below, read_below

UNIT = ["cc", "-O1", "-c", "unit.c", "-o", "unit.o"]


def make_copies(directory: Path, count: int) -> list[Path]:
    image = ImageCache(find_paths().cache).from_recipe("kernel")
    copies = [directory / f"copy-{number}" for number in range(count)]
    for path in copies:
        unpack(image, path)
        speed.make_unit(path / "tmp")
        if not (path / "dev/null").exists():
            os.mknod(path / "dev/null", 0o020666, os.makedev(1, 3))
    os.sync()
    return copies


def compile_in(top: Path) -> float:
    """Seconds of CPU."""
    pid = os.fork()
    if not pid:
        try:
            os.chroot(top)
            os.chdir("/tmp")
            os.execv("/usr/bin/cc", UNIT)
        finally:
            os._exit(127)
    _, status, used = os.wait4(pid, 0)
    assert status == 0, f"cc failed in {top}"
    return used.ru_utime + used.ru_stime


def read_anew(copies: Sequence[Path]) -> None:
    for path in copies:
        forget_below(path)
    drop_names()
    for path in random.sample(copies, len(copies)):
        read_below(path)


def measure_round(copies: Sequence[Path], compilations: int) -> Floats:
    """Logarithms of what each copy's compilation took, less their mean."""
    took: dict[Path, list[float]] = {path: [] for path in copies}
    for path in copies:
        compile_in(path)
    for _ in range(compilations):
        for path in random.sample(copies, len(copies)):
            took[path].append(compile_in(path))
    logs: Floats = np.log([np.median(took[path]) for path in copies])
    relative: Floats = logs - logs.mean()
    return relative


def print_rounds(name: str, logs: Floats) -> None:
    """``logs``: rounds x copies."""
    count, copies = logs.shape
    print(f"\n{name}\n" + "\n".join("  ".join(f"{100 * value:+6.2f} %" for value in row) for row in logs))
    if count > 1:
        means = logs.mean(axis=0)
        within = np.square(logs - means).sum() / ((count - 1) * (copies - 1))
        between = count * np.square(means).sum() / (copies - 1)
        print(f"a copy scatters by {np.sqrt(within):.2%} from round to round; F of copies {between / within:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--compilations", type=int, default=60)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=find_paths().cache) as directory:
        copies = make_copies(Path(directory), arguments.copies)
        read_anew(copies)
        left = [measure_round(copies, arguments.compilations) for _ in range(arguments.rounds)]
        print_rounds("copies left where they are", np.stack(left))
        read = []
        for _ in range(arguments.rounds):
            read_anew(copies)
            read.append(measure_round(copies, arguments.compilations))
        print_rounds("copies read anew before each round", np.stack(read))


if __name__ == "__main__":
    main()
