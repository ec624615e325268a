"""The probe's timer against hyperfine and GNU time, side by side on the same commands: prints differences and ratios.

    python benchmarks/timer.py [RUNS]

Needs root (for the arm bare's cgroup), hyperfine and GNU time. Runs alternate, so that drift of the machine is shared.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from kit.arm import parse_arm
from kit.engines import Place
from kit.filesystem import BackingOptions
from kit.host import read_host
from kit.measure import IdleRate, measure_phase
from kit.paths import find_paths
from kit.progress import Quiet
from kit.provision import Provision, Supplies
from kit.session import held_machine

COMMANDS = {
    "true": ["true"],
    "sleep 0.1": ["sleep", "0.1"],
    "0.3 s of CPU": ["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"],
}
BURN = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; touch done"
DAEMON = ["sh", "-c", f"rm -f done; setsid -f sh -c '{BURN}'; while [ ! -e done ]; do sleep 0.01; done"]


def probe(place: Place, words: list[str]) -> tuple[float, float, float]:
    """Real, user + sys of the tree, and CPU of the cgroup: seconds."""
    with tempfile.TemporaryFile() as output:
        phase = measure_phase("p", place, words, ".", output, IdleRate(0.0))
    return phase.real or 0, (phase.user or 0) + (phase.sys or 0), (phase.cgroup_user or 0) + (phase.cgroup_sys or 0)


def hyperfine(words: list[str], directory: Path) -> tuple[float, float]:
    out = directory / "hyperfine.json"
    quoted = subprocess.list2cmdline(words) if words[0] != "sh" else f"sh -c '{words[2]}'"
    subprocess.run(
        ["hyperfine", "-N", "--runs", "2", "--warmup", "0", "--style", "none", "--export-json", out, quoted],
        check=True, capture_output=True, cwd=directory,
    )  # fmt: skip
    result = json.loads(out.read_text())["results"][0]
    return statistics.mean(result["times"]), result["user"] + result["system"]


def gnu_time(words: list[str], directory: Path) -> tuple[float, float]:
    out = directory / "time.txt"
    subprocess.run(["/usr/bin/time", "-o", out, "-f", "%e %U %S", *words], check=True, cwd=directory)
    real, user, system = map(float, out.read_text().split())
    return real, user + system


def main(runs: int) -> None:
    with held_machine("benchmark-timer", find_paths(), True, Quiet()) as bench:
        options = BackingOptions(size=1 << 30, images=bench.paths.state / "loops")
        with Provision(Supplies(bench.setting, read_host(), options, None, None)) as provision:
            arm = parse_arm("host")
            blocked = provision.ready(arm)
            if blocked:
                sys.exit(blocked.reason)
            with provision.place(arm) as place, tempfile.TemporaryDirectory() as directory:
                for name, words in COMMANDS.items():
                    compare(name, words, place, Path(directory), runs)
                real, tree, group = probe(place, DAEMON)
                _, seen = gnu_time(DAEMON, Path(directory))
                figures = f"cgroup {group:.3f} s, probe's tree {tree:.3f} s, GNU time {seen:.3f} s"
                print(f"daemon that leaves the tree: real {real:.3f} s; CPU: {figures}")


def compare(name: str, words: list[str], place: Place, directory: Path, runs: int) -> None:
    ours, theirs, gnu = [], [], []
    for _ in range(runs):
        ours.append(probe(place, words))
        theirs.append(hyperfine(words, directory))
        gnu.append(gnu_time(words, directory))
    real, other, coarse = (statistics.median(row[0] for row in rows) for rows in (ours, theirs, gnu))
    cpu, other_cpu = statistics.median(row[1] for row in ours), statistics.median(row[1] for row in theirs)
    ratio = f"ratio {cpu / other_cpu:.3f}" if other_cpu > 0.05 else "too little to compare"
    print(f"{name}: real probe {real * 1e3:.3f} ms, hyperfine {other * 1e3:.3f} ms, GNU time {coarse * 1e3:.0f} ms; "
          f"probe - hyperfine {(real - other) * 1e3:+.3f} ms; CPU {ratio}")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
