"""Do interleaved runs give the same ratios as sequential ones, and how much narrower?

    sudo python benchmarks/proofs/equal.py [--workloads kernel,git] [--sessions 2] [--rounds 6] [--interleave auto]
    sudo python benchmarks/proofs/equal.py --workloads yocto:native --param poky=poky-5.0.tar.zst --rounds 3

Sessions of both run orders alternate in random order, so that what the machine does in minutes meets both. For each arm
and metric the mean of the log ratios of all rounds is compared by Welch's t test: the interval of *interleaved /
sequential* must contain 1. The deviations (sd) are those of one round's log ratio. The verdict allows for all rows
(Bonferroni). With ``auto`` the kit may refuse to interleave a workload: its reason is printed, and nothing is compared.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from kit.analysis.runs.run_table import Runs
from kit.analysis.stats import estimators
from kit.analysis.stats.estimators import Floats
from kit.core.paths import find_paths
from kit.core.quantity import pairs
from kit.model.fact import RUN_ORDER, RUN_ORDER_WHY, SLICE
from kit.model.sample import SEQUENTIAL
from kit.model.session import Request, Session
from kit.report.text.progress import Lines
from kit.session.launch import launch
from kit.session.prepared import StartOptions
from kit.store import open_store

BARE, OVERLAY = "bare", "layer:overlay2"
_FSYNC = "i=0; while [ $i -lt 500 ]; do echo $i > f$((i % 100)); sync f$((i % 100)); i=$((i+1)); done"
_SMALL = "for i in $(seq 8); do tar -C /usr/share -cf - . 2>/dev/null | tar -xf -; find . -mindepth 1 -delete; done"
#: Compiles for four fifths of its time and sleeps for the rest, in one piece.
_SLEEP = "i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done; sleep 1"
_ARMS = (BARE, OVERLAY)
WORKLOADS = {
    name: Request(name, arms=_ARMS, control=False)
    for name in ("smoke", "kernel", "yocto:native", "git", "git:short", "maven", "layers", "packages")
} | {
    name: Request(command=("sh", "-c", command), image="kernel", title=name, arms=_ARMS, control=False)
    for name, command in (("fsync", _FSYNC), ("small", _SMALL), ("sleep", _SLEEP))
}
WORKLOADS["kernel:short"] = Request("kernel:short", arms=_ARMS, control=True)
METRICS = ("real", "cpu", "cpu_total", "flush", "durable")


@dataclass(frozen=True)
class Row:
    name: str
    sequential: Floats
    interleaved: Floats

    def text(self, family: int) -> tuple[str, bool]:
        alone = estimators.welch_ratio(self.sequential, self.interleaved)
        together = estimators.welch_ratio(self.sequential, self.interleaved, estimators.family_confidence(family))
        ratios = "  ".join(
            f"{np.exp(logs.mean()):6.3f} (sd {100 * logs.std(ddof=1):5.2f} %, {logs.size:2})"
            for logs in (self.sequential, self.interleaved)
        )
        if alone is None or together is None or alone.low is None or together.low is None:
            return f"{self.name:44} {ratios}  no interval", False
        held = not together.leaves_out(1.0)
        what = "equal" if not alone.leaves_out(1.0) else "equal (simultaneous)" if held else "UNEQUAL"
        return f"{self.name:44} {ratios}  {alone.estimate:.3f} ({alone.low:.3f} – {alone.high:.3f})  {what}", held


def measure(request: Request, observer: Lines) -> Session:
    paths = find_paths()
    return launch(request, paths, open_store("", paths.data / "kit.db"), observer, StartOptions(wait=True))


def logs(sessions: list[Session], arm: str, base: str, metric: str) -> Floats:
    """Of all rounds of these sessions."""
    found = []
    for session in sessions:
        runs = Runs(session.samples)
        keys = (arm, ""), (base, "")
        phase = runs.phases(keys)[-1]
        mine, theirs = (
            runs.values(key, phase, metric)[place] for key, place in zip(keys, runs.common(keys), strict=True)
        )
        good = np.isfinite(mine) & np.isfinite(theirs) & (mine > 0) & (theirs > 0)
        found.append(np.log(mine[good] / theirs[good]))
    return np.concatenate(found)


def round_seconds(sessions: list[Session]) -> float:
    """Wall time from round to round."""
    found = []
    for session in sessions:
        starts: dict[int, float] = {}
        for item in session.samples:
            if item.kind == "measured" and item.rerun_of is None:
                starts[item.round] = min(item.started, starts.get(item.round, item.started))
        listed = sorted(starts.values())
        found += [after - before for before, after in pairwise(listed)]
    return statistics.fmean(found) if found else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="kernel:short,git:short,fsync,small")
    parser.add_argument("--sessions", type=int, default=2, help="of each run order")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--interleave", default="auto")
    parser.add_argument("--image", default="", help="run in that instead of the workload's own")
    parser.add_argument("--param", metavar="K=V", action="append", default=[], help="a parameter of the scenarios")
    arguments = parser.parse_args()
    params = pairs(tuple(arguments.param), "--param")
    rows: list[Row] = []
    for name in arguments.workloads.split(","):
        done: dict[str, list[Session]] = {"off": [], arguments.interleave: []}
        for _ in range(arguments.sessions):
            for way in random.sample(list(done), 2):
                own = WORKLOADS[name]
                image = arguments.image or own.image
                request = replace(own, rounds=arguments.rounds, interleave=way, image=image, params=params)
                done[way].append(measure(request, Lines()))
        sequential, interleaved = done.values()
        facts = interleaved[0].facts
        print(f"{name}: {RUN_ORDER.text(facts)} {SLICE.text(facts)}: {RUN_ORDER_WHY.text(facts)}")
        took = f"{round_seconds(sequential):.1f} s sequential, {round_seconds(interleaved):.1f} s interleaved"
        print(f"{name}: a round takes {took}", flush=True)
        if RUN_ORDER.text(facts) == SEQUENTIAL:
            continue
        for arm, base in sequential[0].baselines:
            for metric in METRICS:
                found = [logs(sessions, arm, base, metric) for sessions in (sequential, interleaved)]
                if all(item.size > 1 for item in found):
                    rows.append(Row(f"{name}: {arm} / {base}, {metric}", *found))
    print(f"{'':44} {'sequential':24}  {'interleaved':24}  interleaved / sequential, 95 %")
    judged = [row.text(len(rows)) for row in rows]
    print("\n".join(text for text, _ in judged))
    sys.exit(not all(held for _, held in judged))


if __name__ == "__main__":
    main()
