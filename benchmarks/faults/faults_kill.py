"""Kill the kit, or what it started, at a random moment of a session.

The kit is killed by SIGKILL after a random share of the time that a session takes there. Then, as the seed wants it,
comes ``kit clean``, perhaps killed too, or the next start; the session is resumed, perhaps killed again. In a fleet a
scheduler, a worker, its guard, what runs its share, or the client is killed. Under a running kit a daemon, a shim, a
FUSE daemon, an arm's probe or a program in it is.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from faults_trial import (
    PATIENCE,
    Bench,
    Outcome,
    Running,
    check_acknowledged,
    check_said,
    check_whole,
    finish,
)

from kit.host.cgroup.cgroup import Cgroup

#: Arms by what is killed: an engine with several drivers and filesystems each.
ARMS = {
    "docker": "bare,layer:overlay2",
    "docker on btrfs": "bare@btrfs,layer:btrfs",
    "docker on xfs": "bare@xfs,layer:overlay2@xfs",
    "containerd": "bare,layer:containerd/overlayfs",
    "podman": "bare,layer:podman/overlay",
    "fuse": "bare,layer:fuse-overlayfs",
    "union": "bare,union:mergerfs",
    "bare": "bare@ext4,bare@xfs",
}
INTERLEAVED = ("--interleave", "0.1s")
SEQUENTIAL = ("--interleave", "off")
#: Worlds in which the kit is killed: arms and options.
WORLDS = {
    **{name: (arms, SEQUENTIAL) for name, arms in ARMS.items()},
    **{f"{name}+interleaved": (arms, INTERLEAVED) for name, arms in ARMS.items()},
    "traced": ("bare,layer:overlay2", (*SEQUENTIAL, "--explain-calls")),
    "guest": ("bare,layer:overlay2", (*SEQUENTIAL, "--guest", "uml")),
}
#: What is killed under a running kit: the beginning of the program's name, and the world.
VICTIMS = {
    "dockerd": "docker",
    "containerd": "containerd",
    "containerd-shim": "docker",
    "conmon": "podman",
    "fuse-overlayfs": "fuse",
    "mergerfs": "union",
    "kit-probe": "docker+interleaved",
    "sh": "containerd+interleaved",
}
WORKERS = ("w1", "w2")
WHERE = (*WORLDS, *(f"{name} under a kit" for name in VICTIMS), "fleet")


def trials(bench: Bench, where: str, seeds: Iterable[int]) -> Iterator[Outcome]:
    if where == "fleet":
        yield from (_kill_in_fleet(bench, seed) for seed in seeds)
    elif where.endswith(" under a kit"):
        yield from (_kill_under_kit(bench, where, where.removesuffix(" under a kit"), seed) for seed in seeds)
    else:
        length = 0.0
        for seed in seeds:
            if not length:
                length, wrong = _undisturbed(bench, where)
                if wrong:
                    yield Outcome(f"kit: {where}", 0, "not killed", tuple(wrong))
                    return
            yield _kill_kit(bench, where, seed, length)


def _words(bench: Bench, world: str) -> list[str]:
    arms, options = WORLDS[world]
    return bench.words(arms, *options)


def _undisturbed(bench: Bench, world: str) -> tuple[float, list[str]]:
    """How many seconds a session takes here, the image in the cache; and what is wrong with it as it is."""
    began, moment = time.monotonic(), time.time()
    kit = bench.start(*_words(bench, world))
    if kit.end(5 * PATIENCE) != 0:  # images of a guest may have to be built
        return 0.0, [f"it fails by itself: {kit.said[-300:]}"]
    taken = time.monotonic() - began
    return taken, finish(bench, moment, kit)


def _kill_kit(bench: Bench, world: str, seed: int, length: float) -> Outcome:
    dice = random.Random(f"{seed}/{world}")
    if dice.random() < 0.15:
        forget(bench)
    since, did, seen = time.time(), [], []
    after = length * dice.random()
    kit = bench.start(*_words(bench, world))
    seen.append(kit)
    kit.sleep_until(after)
    last = kit.last
    kit.kill()
    did.append(f"killed after {after:.2f} of {length:.1f} s ('{last}')")
    wrong: list[str] = []
    for choice in dice.sample(("clean", "clean killed", "resume killed"), dice.randrange(3)):
        did.append(choice)
        wrong += _step(bench, choice, dice, length, since, seen)
    wrong += finish(bench, since, *seen)
    wrong += bench.left_programs() if world == "traced" else []
    return Outcome(f"kit: {world}", seed, ", ".join(did), tuple(wrong))


def forget(bench: Bench) -> None:
    """Empty the cache, but for what takes minutes to build."""
    for path in (bench.home / "cache").glob("*/*"):
        if not path.name.startswith(("guest", "uml", "smoke")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _step(
    bench: Bench, choice: str, dice: random.Random, length: float, since: float, seen: list[Running]
) -> list[str]:
    if choice == "clean":
        done = bench.kit("clean")
        failed = [f"kit clean ends with {done.returncode}: {done.stderr[-300:]}"] if done.returncode else []
        return [*failed, *check_said(done.stderr), *bench.left()]
    if choice == "clean killed":
        kit = bench.start("clean")
        kit.sleep_until(1.5 * dice.random())
        kit.kill()
        return check_said(kit.said)
    begun = bench.newest(since)
    if begun:
        kit = bench.start("compare", "--resume", begun.id)
        seen.append(kit)
        kit.sleep_until(length * dice.random())
        kit.kill()
    return []


def _kill_under_kit(bench: Bench, where: str, victim: str, seed: int) -> Outcome:
    """A session goes on without the arm, or ends; it never hangs, and leaves nothing."""
    dice = random.Random(f"{seed}/{where}")
    since = time.time()
    kit = bench.start(*_words(bench, VICTIMS[victim]))
    found: list[int] = []

    def look() -> bool:
        found[:] = [pid for pid in _members(kit.session) if _name(pid) == victim[:15]]
        return bool(found)

    kit.wait_for(look)
    moment = time.monotonic() - kit.began + 4 * dice.random()
    kit.sleep_until(moment)
    if not look():
        kit.wait_for(look)
    killed = dice.choice(found) if found else 0
    if killed:
        with suppress(ProcessLookupError):
            os.kill(killed, signal.SIGKILL)
    did = f"killed {victim} after {time.monotonic() - kit.began:.2f} s ('{kit.last}')" if killed else "never seen"
    status = kit.end()
    wrong = check_said(kit.said)
    if status not in (0, 1):
        wrong.append(f"it ended with {status}" if status is not None else "it hung")
    wrong += [] if killed else ["nothing was killed"]
    begun = bench.newest(since)
    wrong += check_acknowledged(begun, kit.acknowledged) if begun else ["no session"]
    return Outcome(f"{victim} under a kit", seed, f"{did}, ended with {status}", (*wrong, *bench.left()))


def _members(session: str) -> list[int]:
    """Processes of a session's control groups, containers included."""
    if not session:
        return []
    root = Path("/sys/fs/cgroup")
    names = {path.name for pattern in (f"*/kit-{session}*", f"kit-{session}*") for path in root.glob(pattern)}
    return sorted({pid for name in names for pid in Cgroup.named(name).pids()})


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@dataclass
class Fleet:
    """A scheduler and two workers on this machine, each begun again where it was killed."""

    bench: Bench
    address: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def started(cls, bench: Bench) -> Iterator[Fleet]:
        """A fleet whose workers are there; at the end it is stopped and cleaned up after."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            fleet = cls(bench, f"127.0.0.1:{free.getsockname()[1]}")
        try:
            for name in ("scheduler", *WORKERS):
                fleet.start(name)
            fleet.wait()
            yield fleet
        finally:
            fleet.stop()
            for name in WORKERS:
                bench.kit("clean", KIT_HOME=str(fleet.home(name)))

    def words(self, bench: Bench, rounds: int) -> list[str]:
        """Of a session that it shares, of which one machine decides whether arms are interleaved."""
        return bench.words("bare,bare+control", "--rounds", str(rounds), "--split", "--fleet", self.address)

    def home(self, name: str) -> Path:
        return self.bench.home.with_name(f"{self.bench.home.name}-{name}")

    def start(self, name: str) -> None:
        words = ["scheduler", "--listen", self.address]
        if name != "scheduler":
            mine = ("--home", str(self.home(name)), "--name", name, "--class", "here", "--shared")
            words = ["worker", self.address, *mine]
        command = [sys.executable, "-m", "kit", "fleet", *words]
        self.processes[name] = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def wait(self) -> None:
        """Until all workers have come."""
        deadline = time.monotonic() + 60
        while f"{len(WORKERS)} machines" not in self.bench.kit("fleet", "status", self.address).stdout:
            assert time.monotonic() < deadline, "workers have not come"

    def pid(self, victim: str, worker: str) -> int:
        """Return the PID of a part of a worker; 0 if it does not run."""
        if victim in self.processes:
            return self.processes[victim].pid
        guard = self.processes[worker].pid
        below = {"guard": [guard], "worker": _children(guard), "share": _descendants(guard)}[victim]
        return next((pid for pid in below if victim != "share" or b"kit.extra.fleet.service.agent" in _command(pid)), 0)

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()


def _kill_in_fleet(bench: Bench, seed: int) -> Outcome:
    dice = random.Random(f"{seed}/fleet")
    victim = dice.choice(("client", "scheduler", "guard", "worker", "share"))
    worker = dice.choice(WORKERS)
    since = time.time()
    with Fleet.started(bench) as fleet:
        clients = [bench.start(*fleet.words(bench, 6))]
        clients[0].wait_for(lambda: len(clients[0].acknowledged) > 1)
        clients[0].sleep_until(time.monotonic() - clients[0].began + 3 * dice.random())
        done = len(clients[0].acknowledged)
        wrong = list(_kill_one(fleet, victim, worker, clients, since))
        status = clients[-1].end()
        wrong += [] if status == 0 else [f"the client ended with {status}: {clients[-1].said[-300:]}"]
        found = bench.newest(since)
        acknowledged = [run for client in clients for run in client.acknowledged]
        wrong += check_whole(found, acknowledged) if found else ["no session"]
    wrong += [problem for client in clients for problem in check_said(client.said)]
    wrong += bench.left()
    return Outcome(f"fleet: {victim}", seed, f"killed after {done} of 12 runs", tuple(wrong))


def _kill_one(fleet: Fleet, victim: str, worker: str, clients: list[Running], since: float) -> Sequence[str]:
    if victim == "client":
        clients[0].kill()
        begun = fleet.bench.newest(since)
        if begun is None:
            return ["no session in the store"]
        clients.append(fleet.bench.start("compare", "--resume", begun.id, "--fleet", fleet.address))
        return []
    clients[0].wait_for(lambda: bool(fleet.pid(victim, worker)), PATIENCE)
    pid = fleet.pid(victim, worker)
    if not pid:
        return [f"no {victim} to kill"]
    os.kill(pid, signal.SIGKILL)
    if victim in ("scheduler", "guard"):
        name = victim if victim == "scheduler" else worker
        fleet.processes[name].wait()
        time.sleep(2)
        fleet.start(name)
    return []


def _children(pid: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(word) for path in threads for word in (path / "children").read_text().split()]
    except OSError:
        return []


def _descendants(pid: int) -> list[int]:
    below = _children(pid)
    return [*below, *(other for child in below for other in _descendants(child))]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
