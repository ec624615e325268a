"""Run session after session, and watch what grows.

Between sessions the machine's kernel memory, processes, sockets, mounts, loop devices, control groups and
temporary files are counted, and warnings in dmesg; of a fleet's worker and scheduler, which live on, memory, threads
and descriptors. A count that rises by a quarter of the number of sessions is a fault. ``--count`` is the number of
sessions.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from faults_kill import INTERLEAVED, SEQUENTIAL, Fleet
from faults_trial import PATIENCE, Bench, Outcome, check_said

WHERE = ("sessions", "smoke", "worker")
ARMS = "bare,layer:overlay2"
MIB = 1 << 20
#: MiB by which memory may rise: what else runs here uses some.
_MEMORY = 64.0
#: And by which processes and sockets may.
_OTHERS = 30.0
_LOUD = re.compile(r"BUG|WARNING|blocked for more than|error|unregister_netdevice|Call Trace", re.IGNORECASE)
_EVERY = 10


def trials(bench: Bench, where: str, seeds: Iterable[int]) -> Iterator[Outcome]:
    if where == "worker":
        with Fleet.started(bench) as fleet:

            def share(number: int) -> Sequence[str]:
                return _run(bench, *_words(bench, number), "--split", "--fleet", fleet.address)

            yield _soak(bench, where, seeds, share, lambda: _living(fleet))
        return
    smoke = ["compare", "smoke", "--arms", ARMS, "--rounds", "1", "--cache", "cold", "--no-rerun", "--no-control"]
    yield _soak(bench, where, seeds, lambda n: _run(bench, *(smoke if where == "smoke" else _words(bench, n))), dict)


def _words(bench: Bench, number: int) -> list[str]:
    return bench.words(ARMS, "--rounds", "1", *(INTERLEAVED if number % 2 else SEQUENTIAL), work="echo x > y")


def _run(bench: Bench, *words: str) -> Sequence[str]:
    kit = bench.start(*words)
    status = kit.end(10 * PATIENCE)
    return check_said(kit.said) + ([] if status == 0 else [f"a session ended with {status}: {kit.said[-300:]}"])


def _soak(
    bench: Bench,
    where: str,
    numbers: Iterable[int],
    run: Callable[[int], Sequence[str]],
    more: Callable[[], Mapping[str, float]],
) -> Outcome:
    began = time.monotonic()
    wrong: list[str] = []
    looks: list[Mapping[str, float]] = []
    for number in numbers:
        wrong += run(number)
        looks.append({**_usage(bench), **more()})
        if len(looks) % _EVERY == 0:
            wrong += bench.left() if where != "worker" else []
            print(f"  {len(looks)} sessions: {_shown(looks[-1])}", flush=True)
    wrong += bench.left() if where != "worker" else []
    count = len(looks)
    first, last = _ends(looks)
    for name, before in first.items():
        if last[name] - before > (_MEMORY + 0.2 * count if "MiB" in name else max(_OTHERS, count / 4)):
            wrong.append(f"{name} grew from {before:g} to {last[name]:g}")
    did = f"{count} sessions in {time.monotonic() - began:.0f} s; first quarter: {_shown(first)}; last: {_shown(last)}"
    return Outcome(f"soak: {where}", 1, did, tuple(wrong))


def _ends(looks: Sequence[Mapping[str, float]]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Medians of the first quarter and of the last; the very first session is left out where there are several."""
    rest = looks[1:] or looks
    quarter = max(1, len(rest) // 4)
    first, last = (
        {name: statistics.median(look[name] for look in part) for name in rest[0]}
        for part in (rest[:quarter], rest[-quarter:])
    )
    return first, last


def _shown(look: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in look.items())


def _usage(bench: Bench) -> dict[str, float]:
    memory = dict(re.findall(r"^(\w+): +(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE))
    kernel = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace", check=False).stdout
    temporary = (path for name in ("/tmp", "/var/tmp", "/run", "/dev/shm") for path in Path(name).glob("*kit*"))
    return {
        "kernel MiB": round((int(memory["SUnreclaim"]) + int(memory["KernelStack"])) / 1024),
        "anonymous and shared MiB": round((int(memory["AnonPages"]) + int(memory["Shmem"])) / 1024),
        "processes": len(list(Path("/proc").glob("[0-9]*"))),
        "sockets": len(Path("/proc/net/unix").read_text(errors="replace").splitlines()),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "loops": len(list(Path("/sys/block").glob("loop*/loop"))),
        "cgroups": sum(int(line.split()[2]) for line in Path("/proc/cgroups").read_text().splitlines()[1:]),
        "files": sum(1 for _ in (bench.home / "state").rglob("*")) + sum(1 for _ in (bench.home / "cache").rglob("*")),
        "temporary": len(list(temporary)),
        "dmesg warnings": len(_LOUD.findall(kernel)),
    }


def _living(fleet: Fleet) -> dict[str, float]:
    """Of its scheduler and its first worker."""
    found: dict[str, float] = {}
    for name, pid in (("scheduler", fleet.pid("scheduler", "")), ("worker", fleet.pid("worker", "w1"))):
        status = dict(re.findall(r"^(\w+):\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))
        found[f"{name} MiB"] = round(int(status["VmRSS"]) / 1024)
        found[f"{name} threads"] = int(status["Threads"])
        found[f"{name} descriptors"] = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return found
