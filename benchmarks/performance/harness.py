"""What the harness costs: the share of a session's wall time that is not workload, and where the rest goes.

    sudo python benchmarks/performance/harness.py [SCENARIO] [--rounds 3] [--arms bare,layer:overlay2] [--image IMAGE]
        [--guest uml [--kernel FILE]]

Workload is the time in phases, their flush included. Everything else is harness: image, filesystems, daemons, placing,
releasing, calibration. Wanted for nine arms of the kernel scenario: at most 6 %; and `kit --help` in under 0.2 s. The
image and the sources are brought into the cache before, and a guest's disks: that is done once on a machine, not in
every session. In a guest, whose system calls are slow, no share is wanted, but a first sample within 30 s and its
workload: in User-Mode Linux 7.2 it came 21.4 s and its workload after the start, and 9.9 % of a session of smoke with
``bare`` and ``layer:overlay2``, 6 runs of 39 to 58 s, were not workload, 21 s once and 1.5 s for each run.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from dataclasses import replace

from kit.core.paths import find_paths
from kit.model.arm import parse_arms
from kit.model.event import Event, PhaseStarted, RunsPlanned, SampleTaken, Told
from kit.model.session import Request
from kit.report.text.progress import Lines
from kit.session.launch import launch
from kit.session.prepared import StartOptions
from kit.store import open_store

ARMS = (
    "bare", "runtime:overlay2", "bind:overlay2", "volume:overlay2", "layer:overlay2",
    "layer:fuse-overlayfs", "layer:vfs", "bare@btrfs", "layer:btrfs",
)  # fmt: skip
MOST = 0.06
FIRST = 30.0


_PHASES = "counters around phases, calibration after"
#: What begins when the session says so.
_TOLD = {
    "booting ": "boot",
    "the guest runs": "the kit's start in the guest",
    "making ": "set-up: filesystems, plain root, daemon, image",
}


class Clock(Lines):
    """Adds up the wall time between what the session says it does."""

    def __init__(self) -> None:
        super().__init__()
        self.spent: dict[str, float] = {}
        self.work = 0.0
        self.first = 0.0  # seconds until the first run had been measured, besides its workload
        self._started = self._last = time.monotonic()
        self._doing = "start"

    def turn(self, doing: str) -> None:
        now = time.monotonic()
        self.spent[self._doing] = self.spent.get(self._doing, 0.0) + now - self._last
        self._last, self._doing = now, doing

    def take(self, event: Event) -> None:
        super().take(event)
        match event:
            case Told():
                for beginning, doing in _TOLD.items():
                    if event.text.startswith(beginning):
                        self.turn(doing)
            case RunsPlanned():
                self.turn("caches, reading of roots, idle rate")
            case PhaseStarted():
                self.turn({"place": "placing, calibration", "release": "releasing"}.get(event.phase, _PHASES))
            case SampleTaken():
                self.work += sum((phase.real or 0.0) + (phase.flush or 0.0) for phase in event.sample.phases)
                self.first = self.first or time.monotonic() - self._started - self.work
                self.turn("storing, planning; idle rate before a round")


def help_seconds() -> float:
    times = []
    for _ in range(10):
        start = time.monotonic()
        subprocess.run([sys.executable, "-m", "kit", "--help"], check=True, capture_output=True)
        times.append(time.monotonic() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="?", default="kernel")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--image", default="", help="run in that instead of the scenario's own")
    parser.add_argument("--guest", default="")
    parser.add_argument("--kernel", default="")
    arguments = parser.parse_args()
    paths = find_paths()
    store = open_store("", paths.data / "kit.db")
    arms = tuple(map(str, parse_arms(arguments.arms)))
    where = Request(scenario=arguments.scenario, image=arguments.image, guest=arguments.guest, kernel=arguments.kernel)
    request = replace(where, arms=arms, rounds=arguments.rounds, control=False)
    first = replace(where, arms=("bare",), rounds=1, cache="cold")
    launch(first, paths, store, Lines(), StartOptions(wait=True))
    clock = Clock()
    began = time.monotonic()
    launch(request, paths, store, clock, StartOptions(wait=True))
    whole = time.monotonic() - began
    clock.turn("")
    clock.spent[_PHASES] -= clock.work
    work = clock.work
    # The last thing that is told of is the storing of the last sample; what follows is taking everything down.
    print(f"{arguments.scenario}, {len(arms)} arms, {arguments.rounds} rounds: {whole:.1f} s, workload {work:.1f} s")
    for name, seconds in sorted(clock.spent.items(), key=lambda item: -item[1]):
        print(f"  {seconds:7.2f} s {seconds / whole:6.2%}  {name}")
    share, start = 1 - work / whole, help_seconds()
    wanted = "" if arguments.guest else f" (at most {MOST:.0%})"
    print(f"harness {share:.1%}{wanted}; first run measured after {clock.first:.1f} s and its workload")
    print(f"kit --help {start:.3f} s (under 0.2 s)")
    sys.exit((clock.first > FIRST if arguments.guest else share > MOST) or start > 0.2)


if __name__ == "__main__":
    main()
