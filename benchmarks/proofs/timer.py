"""The probe's timer against hyperfine, GNU time and BenchExec's runexec, each on the very same runs.

    sudo python benchmarks/proofs/timer.py [RUNS]

The probe times the other timer, which times the command: both see one run of it, so the command's own noise, which is
a hundred times larger than what is looked for, drops out. What the other timer adds by itself is known from `true` and
taken off. Wanted: real within 1 ms or 0.1 %, or within the other's resolution where that is coarser; CPU within 1 %; a
daemon that leaves the tree is counted. Needs hyperfine, GNU time and runexec (pip install benchexec) on PATH; one that
is missing is said to be.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kit.arms.engines import Sandbox
from kit.arms.filesystem import BackingOptions
from kit.core.paths import find_paths
from kit.host.cgroup.idle_load import IdleRate
from kit.host.machine import read_host
from kit.model.arm import parse_arm
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from kit.session.measure.phase import measure_phase
from kit.session.setup.provision import Provision, ProvisionSpec

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


@dataclass(frozen=True)
class Timer:
    """``argv`` makes the command that times another; ``read`` what it said. ``resolution``: seconds, of its real time,
    and for a start-up that varies from run to run. ``cut``: seconds, what user and sys are cut off to."""

    argv: Callable[[list[str], Path], list[str]]
    read: Callable[[Path, str], Times]
    resolution: float = 0.0
    cut: float = 0.0


def _hyperfine(words: list[str], out: Path) -> list[str]:
    options = ["-N", "--runs", "1", "--style", "none", "--export-json", str(out)]
    return ["hyperfine", *options, shlex.join(words)]


def _read_hyperfine(out: Path, said: str) -> Times:
    result = json.loads(out.read_text())["results"][0]
    return result["times"][0], result["user"] + result["system"]


def _gnu(words: list[str], out: Path) -> list[str]:
    return ["/usr/bin/time", "-o", str(out), "-f", "%e %U %S", *words]


def _read_gnu(out: Path, said: str) -> Times:
    real, user, system = map(float, out.read_text().split())
    return real, user + system


def _runexec(words: list[str], out: Path) -> list[str]:
    return ["runexec", "--no-container", "--output", str(out), "--", *words]


def _read_runexec(out: Path, said: str) -> Times:
    found = dict(re.findall(r"^(\w+)=([\d.]+)s$", said, re.MULTILINE))
    return float(found["walltime"]), float(found["cputime"])


TIMERS = {
    "hyperfine": Timer(_hyperfine, _read_hyperfine),
    "/usr/bin/time": Timer(_gnu, _read_gnu, 0.01, 0.01),
    "runexec": Timer(_runexec, _read_runexec, 0.02),  # Python starts, and ends, beside it
}


def probe(place: Sandbox, words: list[str]) -> tuple[float, float, float, str]:
    """Real, user + sys of the tree, CPU of the cgroup, in seconds, and what was printed."""
    with tempfile.TemporaryFile() as output:
        phase = measure_phase("p", place, words, ".", output, IdleRate(0.0))
        output.seek(0)
        said = output.read().decode(errors="replace")
    assert phase.status == "ok", said
    tree, group = (phase.user or 0) + (phase.sys or 0), (phase.cgroup_user or 0) + (phase.cgroup_sys or 0)
    return phase.real or 0, tree, group, said


def both(place: Sandbox, timer: Timer, words: list[str], runs: int) -> tuple[Times, Times]:
    """Medians over the runs: what the timer said, and by how much the probe's figures are larger (real, CPU)."""
    inner: list[Times] = []
    more: list[Times] = []
    for _ in range(runs):
        out = Path(place.tree) / "said"
        real, tree, _, said = probe(place, timer.argv(words, out))
        found = timer.read(out, said)
        inner.append(found)
        more.append((real - found[0], tree - found[1]))
    return _medians(inner), _medians(more)


def _medians(rows: list[Times]) -> Times:
    return statistics.median(row[0] for row in rows), statistics.median(row[1] for row in rows)


def compare(place: Sandbox, name: str, runs: int) -> bool:
    """Print one timer over all commands; True if the probe agrees with it throughout."""
    timer = TIMERS[name]
    _, (start, start_cpu) = both(place, timer, ["true"], 2 * runs)
    print(f"{name} adds {start * 1e3:.2f} ms and {start_cpu * 1e3:.2f} ms of CPU by itself; the rest is agreement:")
    good = True
    for title, words in COMMANDS.items():
        (real, cpu), (more, more_cpu) = both(place, timer, words, runs)
        away, away_cpu = more - start, more_cpu - start_cpu
        near = abs(away) <= max(1e-3, 1e-3 * real, timer.resolution)
        text = f"  {title:12} real {real * 1e3:9.3f} ms, probe {away * 1e3:+7.3f} ms"
        if cpu > 0.3:
            near &= abs(away_cpu) <= max(0.01 * cpu, 2 * timer.cut)
            text += f"; CPU {cpu:.3f} s, probe {away_cpu * 1e3:+.2f} ms (ratio {1 + away_cpu / cpu:.4f})"
        print(f"{text}: {'agree' if near else 'DISAGREE'}", flush=True)
        good &= near
    return good


def daemon(place: Sandbox) -> bool:
    """A command whose work is done by a process that has left the tree."""
    real, tree, group, _ = probe(place, DAEMON)
    out = Path(place.tree) / "said"
    print(f"daemon that leaves the tree, {real:.3f} s; CPU: cgroup {group:.3f} s, probe's tree {tree:.3f} s", end="")
    for name in present():
        said = probe(place, TIMERS[name].argv(DAEMON, out))[3]
        print(f", {name} {TIMERS[name].read(out, said)[1]:.3f} s", end="")
    print()
    return group > 2 * tree


def present() -> list[str]:
    return [name for name in TIMERS if shutil.which(name)]


def main(runs: int) -> None:
    for name in TIMERS.keys() - set(present()):
        print(f"{name} is not on PATH: not compared with it")
    with held_machine("benchmark-timer", find_paths(), True, Quiet()) as bench:
        options = BackingOptions(size=1 << 30, images=bench.paths.state / "loops")
        with Provision(ProvisionSpec(bench.setting, read_host(), options, None, None)) as provision:
            arm = parse_arm("host")
            blocked = provision.ready(arm)
            if blocked:
                sys.exit(blocked.reason)
            with provision.sandbox(arm) as place:
                good = [compare(place, name, runs) for name in present()]
                good.append(daemon(place))
    print("agreement throughout" if all(good) else "NO agreement in places")
    sys.exit(not all(good))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
