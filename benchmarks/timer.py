"""The probe's timer against hyperfine, GNU time and BenchExec's runexec, side by side on the same commands.

    sudo python benchmarks/timer.py [RUNS]

Needs hyperfine, GNU time and runexec (pip install benchexec) on PATH; one that is missing is said to be. Runs
alternate, so that drift of the machine is shared. Wanted: real within 1 ms or 0.1 % of hyperfine, CPU within 1 % of
the best of the others, and a daemon that leaves the tree is counted. runexec starts a helper of its own, which is in
its wall time.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
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

Times = tuple[float, float]  # real, CPU: seconds

COUNT = "i=0; while [ $i -lt {} ]; do i=$((i+1)); done"
COMMANDS = {
    "true": ["true"],
    "sleep 0.1": ["sleep", "0.1"],
    "1 s of CPU": ["sh", "-c", COUNT.format(1_000_000)],
    "1000 forks": ["sh", "-c", "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done"],
    "write, sync": ["sh", "-c", "dd if=/dev/zero of=file bs=1M count=64 conv=fsync status=none"],
}
BURN = COUNT.format(300_000) + "; touch done"
DAEMON = ["sh", "-c", f"rm -f done; setsid -f sh -c '{BURN}'; while [ ! -e done ]; do sleep 0.01; done"]


def probe(place: Place, words: list[str]) -> tuple[float, float, float]:
    """Real, user + sys of the tree, and CPU of the cgroup: seconds."""
    with tempfile.TemporaryFile() as output:
        phase = measure_phase("p", place, words, ".", output, IdleRate(0.0))
    return phase.real or 0, (phase.user or 0) + (phase.sys or 0), (phase.cgroup_user or 0) + (phase.cgroup_sys or 0)


def hyperfine(words: list[str], directory: Path) -> Times:
    out = directory / "hyperfine.json"
    subprocess.run(
        ["hyperfine", "-N", "--runs", "2", "--warmup", "0", "--style", "none", "--export-json", out, shlex.join(words)],
        check=True, capture_output=True, cwd=directory,
    )  # fmt: skip
    result = json.loads(out.read_text())["results"][0]
    return statistics.mean(result["times"]), result["user"] + result["system"]


def gnu_time(words: list[str], directory: Path) -> Times:
    out = directory / "time.txt"
    subprocess.run(["/usr/bin/time", "-o", out, "-f", "%e %U %S", *words], check=True, cwd=directory)
    real, user, system = map(float, out.read_text().split())
    return real, user + system


def runexec(words: list[str], directory: Path) -> Times:
    argv = ["runexec", "--no-container", "--output", str(directory / "output"), "--dir", str(directory), "--", *words]
    said = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=directory).stdout
    found = dict(re.findall(r"^(\w+)=([\d.]+)s$", said, re.MULTILINE))
    return float(found["walltime"]), float(found["cputime"])


def others() -> dict[str, Callable[[list[str], Path], Times]]:
    known = {"hyperfine": hyperfine, "/usr/bin/time": gnu_time, "runexec": runexec}
    found = {name: timer for name, timer in known.items() if shutil.which(name)}
    for name in known.keys() - found.keys():
        print(f"{name} is not on PATH: not compared with it")
    return found


def main(runs: int) -> None:
    with held_machine("benchmark-timer", find_paths(), True, Quiet()) as bench:
        options = BackingOptions(size=1 << 30, images=bench.paths.state / "loops")
        with Provision(Supplies(bench.setting, read_host(), options, None, None)) as provision:
            arm = parse_arm("host")
            blocked = provision.ready(arm)
            if blocked:
                sys.exit(blocked.reason)
            timers = others()
            with provision.place(arm) as place:
                # The others write where the arm does: the same filesystem, or the last command would not be the same.
                directory = Path(place.tree)
                good = min([compare(name, place, directory, runs, timers) for name in COMMANDS])
                real, tree, group = probe(place, DAEMON)
                seen = "".join(f", by {name} {timer(DAEMON, directory)[1]:.3f} s" for name, timer in timers.items())
                figures = f"CPU by the cgroup {group:.3f} s, by the probe's tree {tree:.3f} s{seen}"
                print(f"daemon that leaves the tree: real {real:.3f} s; {figures}")
                good &= group > 2 * tree
    print("within 1 ms or 0.1 % of real, 1 % of CPU" if good else "NOT within bounds")
    sys.exit(not good)


def compare(
    name: str, place: Place, directory: Path, runs: int, timers: dict[str, Callable[[list[str], Path], Times]]
) -> bool:
    """Print one command by all timers; True if the probe is near enough. Every command runs, whatever comes out."""
    words = COMMANDS[name]
    rows: dict[str, list[Times]] = {"probe": [], **{timer: [] for timer in timers}}
    for _ in range(runs):
        rows["probe"].append(probe(place, words)[:2])
        for timer, run in timers.items():
            rows[timer].append(run(words, directory))
    real = {timer: statistics.median(row[0] for row in found) for timer, found in rows.items()}
    cpu = {timer: statistics.median(row[1] for row in found) for timer, found in rows.items()}
    print(f"{name}: real, ms: " + ", ".join(f"{timer} {value * 1e3:.3f}" for timer, value in real.items()))
    good = True
    if "hyperfine" in real:
        away = real["probe"] - real["hyperfine"]
        good = abs(away) < max(1e-3, 1e-3 * real["probe"])
        verdict = "good" if good else "TOO FAR"
        print(f"  probe - hyperfine {away * 1e3:+.3f} ms, {away / real['hyperfine']:+.2%}: {verdict}")
    if cpu["probe"] > 0.5:
        ratios = {timer: cpu["probe"] / value for timer, value in cpu.items() if timer != "probe"}
        near = min(abs(ratio - 1) for ratio in ratios.values()) < 0.01
        text = ", ".join(f"to {timer} {ratio:.4f}" for timer, ratio in ratios.items())
        print(f"  CPU {cpu['probe']:.3f} s, ratio {text}: {'good' if near else 'TOO FAR'}")
        good &= near
    return good


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
