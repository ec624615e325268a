"""Is a penalty that is known found again, and charged to the right step of the ladder?

    sudo python benchmarks/proofs/recovery.py [--rounds 12] [--where container,read,write,neighbour] [--interleave 0.1s]

A real build runs on real arms (bare, runtime, bind, layer on overlay2) with a library preloaded that makes opening
files slower by about 2, 5, 10 and 20 % of the build, in some arms alone: in containers (runtime tax), for files of the
root filesystem that lie on an overlay (read tax), for files of the build tree that do (write tax). What it injected it
notes by a clock of its own. All sizes, none included, are swept within the same blocks, so what the arms cost by
themselves is subtracted: (step with delay) - (the same step without), within each block. A neighbour that burns 2 to
20 % of a CPU beside the layer arm alone must come back as CPU `elsewhere`. By turns it is beside all arms at once, and
each must have as much of it as fell into its own turns.

Printed: injected and recovered seconds with 95 % interval, and the same for the steps that were left alone. The
verdict allows for the number of intervals looked at (Bonferroni).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import numpy as np

from kit.analysis.runs.run_table import Runs
from kit.analysis.stats.estimate import Interval
from kit.analysis.stats.estimators import Floats, family_confidence, mean_centre
from kit.core.paths import find_paths
from kit.model.default import OFF
from kit.model.plan import PlanStep
from kit.model.session import Request, Session
from kit.report.text.progress import Lines
from kit.session.launch import launch
from kit.session.prepared import StartOptions
from kit.store import open_store

ARMS = ("bare", "runtime:overlay2", "bind:overlay2", "layer:overlay2")
STEPS = ("runtime tax", "read tax", "write tax")
HIT = {"container": 0, "read": 1, "write": 2}
#: Microseconds per open that make about 2, 5, 10 and 20 %: units open more files below /usr than in the tree.
SIZES = {
    "container": (4, 10, 21, 41),
    "read": (5, 12, 24, 48),
    "write": (33, 82, 164, 327),
    "neighbour": (2, 5, 10, 20),  # % of a CPU
}
HEADERS = 20
#: Burns the given share of one CPU, five milliseconds at a time.
_BURN = """
import sys, time
share = float(sys.argv[1])
while True:
    end = time.process_time() + 0.005
    while time.process_time() < end:
        pass
    time.sleep(0.005 / share - 0.005)
"""


@dataclass
class Neighbour(Lines):
    """Progress on stderr; beside the work phase of the layer arm, by turns of all, a process that burns a share of a
    CPU."""

    interleaved: bool = False
    burnt: dict[tuple[int, str], float] = field(default_factory=dict)  # by block and point: CPU seconds
    share: dict[tuple[int, str], float] = field(default_factory=dict)  # and how much of a CPU that was
    _process: subprocess.Popen[bytes] | None = None
    _at: tuple[int, str] = (0, "")
    _before: float = 0.0
    _began: float = 0.0

    def __post_init__(self) -> None:
        super().__init__()

    def running(self, step: PlanStep, phase: str) -> None:
        if phase == "work" and self.interleaved and self._process:
            return  # it is there since the first of them was asked to begin
        self.stop()
        percent = float(step.point.rpartition("=")[2])
        if phase == "work" and percent and (self.interleaved or str(step.arm) == ARMS[-1]):
            self._at = (step.round, step.point)
            self._process = subprocess.Popen([sys.executable, "-S", "-c", _BURN, str(percent / 100)])
            time.sleep(0.1)  # what starting it costs is not what the phase has beside it
            self._before, self._began = self._cpu(), time.monotonic()

    def stop(self) -> None:
        if self._process:
            self.burnt[self._at] = self._cpu() - self._before
            self.share[self._at] = self.burnt[self._at] / (time.monotonic() - self._began)
            self._process.kill()
            self._process.wait()
            self._process = None

    def _cpu(self) -> float:
        assert self._process
        return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[0]) / 1e9


def make_source(directory: Path) -> None:
    """The units: one C file that includes 20 headers of its own and some of the system."""
    here = Path(__file__).with_name("recovery")
    for path in (here / "slow.c", here / "work.sh", here.parent / "ledger.h"):
        shutil.copy(path, directory)
    for number in range(HEADERS):
        (directory / f"own{number}.h").write_text(
            f"static inline int own{number}(int x) {{ return x * {number} + 1; }}\n"
        )
    system = ("stdio", "stdlib", "string", "unistd", "math", "time", "errno", "fcntl", "signal", "pthread")
    lines = [f"#include <{name}.h>" for name in system] + [f'#include "own{number}.h"' for number in range(HEADERS)]
    calls = " + ".join(f"own{number}(x)" for number in range(HEADERS))
    (directory / "unit.c").write_text("\n".join(lines) + f"\nint unit(int x) {{ return {calls}; }}\n")


def measure(where: str, source: Path, arguments: argparse.Namespace, observer: Lines) -> Session:
    chosen = SIZES[where][-1:] if arguments.largest else SIZES[where]
    sizes = ",".join(str(size) for size in (0, *chosen))
    request = Request(
        scenario=str(Path(__file__).with_name("recovery") / "scenario.toml"),
        params=(("source", str(source)), ("where", where), ("us", sizes), ("units", str(arguments.units))),
        arms=ARMS,
        rounds=arguments.rounds,
        control=False,
        interleave=arguments.interleave,
    )
    paths = find_paths()
    return launch(request, paths, open_store("", paths.data / "kit.db"), observer, StartOptions(wait=True))


def injected(session: Session, arm: str, point: str) -> dict[int, float]:
    """Seconds by the library's own clock, by block: the last number of the run's log."""
    logs = {s.round: Path(s.log) for s in session.samples if (s.arm, s.point, s.kind) == (arm, point, "measured")}
    return {block: int(log.read_text().split()[-1]) / 1e9 for block, log in logs.items()}


class Blocks:
    """The blocks that hold every arm without and with the delay."""

    def __init__(self, runs: Runs, none: str, point: str) -> None:
        self._runs, self._none, self._point = runs, none, point
        keys = [(arm, at) for arm in ARMS for at in (none, point)]
        self.numbers = reduce(np.intersect1d, [runs.rounds(key) for key in keys])

    def change(self, lower: str, upper: str, metric: str) -> Floats:
        """(upper - lower) with the delay, less the same without it, in each block."""
        with_it, without = (
            self._get(upper, at, metric) - self._get(lower, at, metric) for at in (self._point, self._none)
        )
        return with_it - without

    def own_change(self, arm: str, metric: str) -> Floats:
        """Of an arm, with it less without it."""
        return self._get(arm, self._point, metric) - self._get(arm, self._none, metric)

    def seconds(self, arm: str) -> Floats:
        """What the arm took with it."""
        return self._get(arm, self._point, "real")

    def _get(self, arm: str, point: str, metric: str) -> Floats:
        key = (arm, point)
        found = self._runs.values(key, "work", metric)[np.searchsorted(self._runs.rounds(key), self.numbers)]
        if not np.isfinite(found).all():
            sys.exit(f"{metric} of {arm} is left out of some runs: this machine is too busy for it")
        return found


@dataclass(frozen=True)
class Check:
    name: str
    truth: float
    values: Floats
    base: float

    def row(self, family: int) -> tuple[str, bool]:
        centre = mean_centre(self.values)
        found, wide = centre.interval(), centre.interval(family_confidence(family))
        inside, held = _holds(found, self.truth), _holds(wide, self.truth)
        low, high = (100 * (value or 0) / self.base for value in (found.low, found.high))
        text = (
            f"{self.name:42} {self.truth:8.3f} s {100 * self.truth / self.base:6.2f} %  {found.estimate:8.3f} s "
            f"{100 * found.estimate / self.base:6.2f} % ({low:6.2f} … {high:6.2f})"
        )
        return f"{text}  {'inside' if inside else 'inside, all at once' if held else 'OUTSIDE'}", held


def _holds(found: Interval, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def neighbour_checks(blocks: Blocks, point: str, beside: Neighbour, base: float) -> Iterator[Check]:
    """What was burnt differs from run to run and is known for each: the error must be nothing on average."""
    at = [(block, point) for block in blocks.numbers]
    if not beside.interleaved:
        truth = np.array([beside.burnt[key] for key in at])
        change = blocks.change(ARMS[0], ARMS[3], "outside")
        yield Check(f"neighbour, {point} %: elsewhere", float(truth.mean()), change - truth + truth.mean(), base)
        return
    for arm in ARMS:
        truth = np.array([beside.share[key] for key in at]) * blocks.seconds(arm)
        change = blocks.own_change(arm, "outside")
        yield Check(f"neighbour, {point} %: {arm}", float(truth.mean()), change - truth + truth.mean(), base)


def checks(session: Session, where: str, observer: Lines) -> list[Check]:
    runs = Runs(session.samples)
    none, *points = runs.points
    base = float(runs.values((ARMS[0], none), "work", "real").mean())
    found: list[Check] = []
    for point in points:
        blocks = Blocks(runs, none, point)
        if isinstance(observer, Neighbour):
            found += neighbour_checks(blocks, point, observer, base)
            continue
        amount = injected(session, ARMS[3], point)
        assert not any(injected(session, ARMS[0], point).values()), "the delay hit bare"
        for step, name in enumerate(STEPS):
            change = blocks.change(ARMS[step], ARMS[step + 1], "real")
            truth = np.array([amount[block] for block in blocks.numbers]) if step == HIT[where] else 0 * change
            found.append(Check(f"{where}, {point} µs: {name}", float(truth.mean()), change, base))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--where", default=",".join(SIZES))
    parser.add_argument("--largest", action="store_true", help="of the delays the largest alone")
    parser.add_argument("--units", type=int, default=20, help="so many files are compiled in a run")
    parser.add_argument("--interleave", default="off", help="as of kit compare")
    arguments = parser.parse_args()
    found: list[Check] = []
    for where in arguments.where.split(","):
        observer = Neighbour(arguments.interleave != OFF) if where == "neighbour" else Lines()
        with tempfile.TemporaryDirectory() as directory:
            make_source(Path(directory))
            session = measure(where, Path(directory), arguments, observer)
        found += checks(session, where, observer)
    print(f"{'':42} {'injected':>10} {'':>8}  {'recovered':>10} {'':>8} 95 % interval, % of bare")
    rows = [item.row(len(found)) for item in found]
    print("\n".join(text for text, _ in rows))
    alone = sum(_holds(mean_centre(item.values).interval(), item.truth) for item in found)
    held = all(good for _, good in rows)
    print(f"{alone} of {len(found)} intervals hold the truth one at a time, {'all' if held else 'NOT all'} at once")
    sys.exit(not held)


if __name__ == "__main__":
    main()
