"""How well spins before and after a compilation tell how fast the CPU was during it.

    python benchmarks/proofs/spins.py [--compilations 100] [--units 4]

Each compilation is of ``--units`` files, about 0.5 s of CPU time each, between two spins of each kind: today's
``arithmetic`` and ``memory`` of the probe (wall time), and ``like a compiler`` (spins.c, CPU time, three in a row: the
least of them, and their mean). Printed: what each takes, how much it scatters (standard deviation of the logarithm),
and its correlation with the compilations' user time, and with user + sys, which the kernel does not split by ticks;
and how much narrower a ratio would become by a covariate of that correlation, one minus the root of 1 - r².
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from kit.analysis.stats.estimators import Floats
from kit.arms.probe import probe_binary, spin
from kit.core.paths import find_paths

_SOURCE = Path(__file__).with_name("spins.c")
_HEADERS = ("stdio", "stdlib", "string", "unistd", "math", "time", "errno", "fcntl", "signal", "pthread")
_REPEATS, _FUNCTIONS = 3, 150
_SPINS = ("arithmetic", "memory", "like a compiler, least", "like a compiler, mean")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compilations", type=int, default=100, help="3 at least")
    parser.add_argument("--units", type=int, default=4)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        unit, like_compiler = _prepare(Path(directory))
        probe = probe_binary(find_paths().cache)
        rows = []
        before = _spins(probe, like_compiler)
        for _ in range(wanted.compilations):
            user, cpu = _compile(unit, wanted.units)
            after = _spins(probe, like_compiler)
            rows.append([*((one * other) ** 0.5 for one, other in zip(before, after, strict=True)), user, cpu])
            before = after
    report(np.array(rows))


def report(rows: Floats) -> None:
    """Of each compilation the spins' seconds, user time, and user + sys."""
    logs = np.log(rows)
    spread = logs.std(axis=0, ddof=1)
    print(f"{len(rows)} compilations of {rows[:, -1].mean():.2f} s; user time scatters by {spread[-2]:.1%}, "
          f"user + sys by {spread[-1]:.1%}")  # fmt: skip
    print(f"{'spin':26}{'takes':>10}{'scatter':>9}{'r, user':>9}{'r, user + sys':>15}{'narrower by':>13}")
    for i, name in enumerate(_SPINS):
        with np.errstate(invalid="ignore"):
            user, cpu = (float(np.corrcoef(logs[:, i], logs[:, place])[0, 1]) for place in (-2, -1))
        gain = 1 - (1 - cpu**2) ** 0.5
        print(f"{name:26}{1000 * rows[:, i].mean():>7.1f} ms{spread[i]:>9.1%}{user:>9.2f}{cpu:>15.2f}{gain:>13.0%}")


def _prepare(directory: Path) -> tuple[Path, Path]:
    unit, binary = directory / "unit.c", directory / "spin"
    dice = random.Random(1)
    lines = [f"#include <{name}.h>" for name in _HEADERS]
    lines += [
        f"int f{i}(int *a, int n) {{ int s = {i}; for (int j = 0; j < n; j++) {{ s += a[j] * {dice.randint(1, 99)};"
        f" if (s % {dice.randint(3, 17)} == 0) a[j] ^= s; }} return s; }}"
        for i in range(_FUNCTIONS)
    ]
    unit.write_text("\n".join(lines))
    subprocess.run(["cc", "-O2", "-static", "-o", binary, _SOURCE], check=True)
    return unit, binary


def _spins(probe: Path, like_compiler: Path) -> tuple[float, ...]:
    today = spin(probe)
    found = [int(subprocess.check_output([like_compiler])) / 1e9 for _ in range(_REPEATS)]
    return today.arithmetic, today.memory, min(found), sum(found) / _REPEATS


def _compile(unit: Path, units: int) -> tuple[float, float]:
    """Return user time, and user + sys, of so many compilations."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(units):
        subprocess.run(["cc", "-O1", "-c", unit, "-o", unit.with_suffix(".o")], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = after.ru_utime - before.ru_utime
    return user, user + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
