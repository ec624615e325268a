"""Set the clock back and forth under a session; restart the machine between its start and its resumption.

The time of day that kits read jumps at random moments by up to ten years (a preloaded library); what they start keeps
the right one. A clock that is ten years off for one session makes ``kit prune`` remove none of the sessions before
and after it. A restarted machine has another boot id, an empty /run and no process of before: the session that was
killed is resumed in a mount namespace that has these. An engine that was upgraded meanwhile is named, and the session
ends as it was meant once the earlier version is back.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from faults_kill import SEQUENTIAL, Fleet
from faults_trial import PATIENCE, TITLE, Bench, Outcome, Running, check_said, check_whole, finish_session

WHERE = (
    "clock jumps", "clock jumps under a fleet", "restarted between start and resumption", "engine upgraded",
    "clock ten years ahead", "clock ten years back",
)  # fmt: skip
HOUR, DAY = 3600, 86400
JUMPS = (-3650 * DAY, -DAY, -HOUR, -1, 1, HOUR, DAY, 3650 * DAY)
ARMS = "bare,layer:overlay2"
#: A program in the place of dockerd, of another version; $1 of the format: the right one.
UPGRADED = """#!/bin/sh
[ "$1" != --version ] || {{ echo 'Docker version 99.0.1, build 0'; exit; }}
exec {} "$@"
"""
#: $1: a file with another boot id; then the command.
REBOOTED = """
mount --bind "$1" /proc/sys/kernel/random/boot_id
mount -t tmpfs -o mode=755 kit-faults /run
shift
exec "$@"
"""


def trials(bench: Bench, where: str, seeds: Iterable[int]) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory() as scratch:
        if where == WHERE[2]:
            yield from (_restart(bench, seed, Path(scratch)) for seed in seeds)
            return
        if where == WHERE[3]:
            yield from (_upgrade(bench, seed, Path(scratch)) for seed in seeds)
            return
        library = Path(scratch) / "clock.so"
        source = Path(__file__).with_name("faults_clock.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        for seed in seeds:
            clock = Clock(Path(scratch) / "clock")
            with preloaded(library, clock):
                yield CLOCKS[where](bench, seed, clock)


class Clock:
    """How many seconds the clock is off: ``set`` is seen at once by all that read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        path.write_bytes(bytes(8))

    def jump(self, seconds: int) -> None:
        self.offset += seconds
        with self.path.open("r+b") as file:
            file.write(struct.pack("q", self.offset))


@contextmanager
def preloaded(library: Path, clock: Clock) -> Iterator[None]:
    """All that is started in the round reads that clock; not what a kit starts, which has no such environment."""
    given = {"LD_PRELOAD": str(library), "KIT_CLOCK": str(clock.path)}
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            del os.environ[name]


def _jumping(kit: Running, clock: Clock, dice: random.Random, pause: float) -> list[str]:
    """Let the clock jump until the kit has ended, ten times at most."""
    did = []
    deadline = time.monotonic() + PATIENCE
    for _ in range(10):
        kit.sleep_until(time.monotonic() - kit.began + pause * dice.random())
        if not kit.runs() or time.monotonic() > deadline:
            break
        jump = dice.choice(JUMPS)
        clock.jump(jump)
        did.append(f"{jump:+d} s")
    return did


def _jump(bench: Bench, seed: int, clock: Clock) -> Outcome:
    dice = random.Random(f"{seed}/jump")
    clock.jump(dice.choice(JUMPS))
    kit = bench.start(*bench.words(ARMS, *(SEQUENTIAL if dice.random() < 0.5 else ("--interleave", "0.1s"))))
    did = _jumping(kit, clock, dice, 9.0)
    status = kit.end()
    wrong = [] if status == 0 else [f"it ended with {status}: {kit.said[-300:]}"]
    if kit.session:
        session = bench.get(kit.session)
        wrong += finish_session(bench, session, kit)
        long = [phase.real for item in session.samples for phase in item.phases if not 0 < (phase.real or 0) < 60]
        wrong += [f"times that none can be: {long}"] if long else []
    for words in (("sessions",), ("show", kit.session), ("history", TITLE, ARMS.split(",")[1])):
        done = bench.kit(*words)
        wrong += [] if done.returncode == 0 else [f"kit {words[0]}: {done.stderr.strip()[-200:]}"]
    return Outcome(WHERE[0], seed, ", ".join(did) or "no jump", (*wrong, *check_said(kit.said)))


def _jump_fleet(bench: Bench, seed: int, clock: Clock) -> Outcome:
    dice = random.Random(f"{seed}/jump-fleet")
    with Fleet.started(bench) as fleet:
        kit = bench.start(*fleet.words(bench, 4))
        did = _jumping(kit, clock, dice, 9.0)
        status = kit.end()
        wrong = [] if status == 0 else [f"it ended with {status}: {kit.said[-300:]}"]
        wrong += check_whole(bench.get(kit.session), kit.acknowledged) if kit.session else ["no session"]
    return Outcome(WHERE[1], seed, ", ".join(did), (*wrong, *check_said(kit.said), *bench.left()))


def _off(bench: Bench, seed: int, clock: Clock, where: str, jump: int) -> Outcome:
    """A session while the clock is right, one while it is off, perhaps killed; none is too old, by either clock."""
    dice = random.Random(f"{seed}/{where}")
    words = bench.words(ARMS, *SEQUENTIAL)
    before = bench.start(*words)
    wrong = [] if before.end() == 0 else [f"it fails by itself: {before.said[-300:]}"]
    clock.jump(jump)
    kit = bench.start(*words)
    if killed := dice.random() < 0.5:
        kit.wait_for(lambda: bool(kit.acknowledged))
        kit.kill()
    else:
        kit.end()
    for again in (-jump, 0):
        done = bench.kit("prune", "--keep", "30d")
        wrong += [f"kit prune: {done.stderr.strip()[-200:]}"] if done.returncode else check_said(done.stderr)
        clock.jump(again)
    stored = [bench.get(running.session) for running in (before, kit) if bench.has(running.session)]
    if len(stored) < 2:
        return Outcome(where, seed, "", (*wrong, "kit prune removed a session of today"))
    wrong += [*check_whole(stored[0], before.acknowledged), *finish_session(bench, stored[1], kit)]
    return Outcome(where, seed, "killed" if killed else "ended", tuple(wrong))


CLOCKS: dict[str, Callable[[Bench, int, Clock], Outcome]] = {
    WHERE[0]: _jump,
    WHERE[1]: _jump_fleet,
    WHERE[4]: partial(_off, where=WHERE[4], jump=3650 * DAY),
    WHERE[5]: partial(_off, where=WHERE[5], jump=-3650 * DAY),
}


def _restart(bench: Bench, seed: int, scratch: Path) -> Outcome:
    dice = random.Random(f"{seed}/restart")
    kit = bench.start(*bench.words(ARMS, *SEQUENTIAL))
    kit.wait_for(lambda: bool(kit.session))
    kit.sleep_until(time.monotonic() - kit.began + 6 * dice.random())
    last = kit.last
    kit.kill()
    boot = scratch / "boot_id"
    boot.write_text(f"{dice.getrandbits(128):032x}\n")
    namespace = ("unshare", "--mount", "--propagation", "private", "--", "sh", "-euc", REBOOTED, "sh", str(boot))
    did = f"killed after '{last}', resumed after a restart"
    if not kit.session:
        return Outcome(WHERE[2], seed, did, ("no session",))
    shutil.rmtree(Path("/run/kit") / kit.session, ignore_errors=True)
    resumed = Running(["compare", "--resume", kit.session], before=namespace, **bench.env)
    status = resumed.end()
    wrong = [] if status == 0 else [f"it ended with {status}: {resumed.said[-300:]}"]
    return Outcome(WHERE[2], seed, did, (*wrong, *check_whole(bench.get(kit.session)), *bench.left()))


def _upgrade(bench: Bench, seed: int, scratch: Path) -> Outcome:
    dice = random.Random(f"{seed}/upgrade")
    kit = bench.start(*bench.words(ARMS, *SEQUENTIAL))
    kit.wait_for(lambda: bool(kit.acknowledged))
    kit.sleep_until(time.monotonic() - kit.began + dice.random())
    last = kit.last
    kit.kill()
    if not kit.acknowledged:
        return Outcome(WHERE[3], seed, f"killed after '{last}'", (f"no run: {kit.said[-300:]}",))
    other = scratch / "dockerd"
    other.write_text(UPGRADED.format(shutil.which("dockerd")))
    other.chmod(0o755)
    begun = bench.get(kit.session)
    refused = bench.kit("compare", "--resume", begun.id, PATH=f"{scratch}:{os.environ['PATH']}")
    wrong = check_said(refused.stderr)
    if "ran with dockerd" not in refused.stderr or "99.0.1" not in refused.stderr:
        wrong.append(f"it does not say that the engine changed: {refused.stderr[-300:]}")
    wrong += [] if refused.returncode else ["runs with another engine were mixed in"]
    return Outcome(WHERE[3], seed, f"killed after '{last}'", (*wrong, *finish_session(bench, begun, kit)))
