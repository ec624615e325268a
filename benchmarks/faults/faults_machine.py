"""Run sessions under umasks, mounts and limits that a user or a machine sets.

A session runs under one of them, and is killed half of the times. What another user may write to meanwhile is a fault.
Without the limit, the session is then finished.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from faults_kill import SEQUENTIAL, forget
from faults_other_user import beside, reached, said
from faults_trial import Bench, Outcome, Running, check_acknowledged, check_said, finish

ARMS = "bare,layer:overlay2"
MAPPED = f"{ARMS},layer:overlay2+userns=remap"  # whose root is another user of the machine
MIB = 1 << 20
#: $1: the KIT_HOME; then the command.
NOEXEC = """
for place in "$1" /run /tmp /dev/shm; do
    mount --bind "$place" "$place"
    mount -o remount,bind,noexec,nosuid,nodev "$place"
done
shift
exec "$@"
"""

#: Words of a command that runs a kit so, for a home.
Setting = Callable[[Path, random.Random], tuple[str, ...]]


def _umask(mask: str) -> Setting:
    return lambda home, dice: ("sh", "-c", f'umask {mask}; exec "$@"', "sh")


def _noexec(home: Path, dice: random.Random) -> tuple[str, ...]:
    return ("unshare", "--mount", "--propagation", "private", "--", "sh", "-euc", NOEXEC, "sh", str(home))


def _limit(option: str, least: int, most: int) -> Setting:
    """A limit between two numbers: small ones are as likely as large ones."""
    return lambda home, dice: ("prlimit", f"--{option}={int(least * (most / least) ** dice.random())}", "--")


SETTINGS: dict[str, Setting] = {
    **{f"umask {mask}": _umask(mask) for mask in ("000", "002", "027", "077")},
    "noexec mounts": _noexec,
    "RLIMIT_NOFILE low": _limit("nofile", 16, 256),
    "RLIMIT_FSIZE low": _limit("fsize", MIB // 16, 64 * MIB),
    "RLIMIT_AS low": _limit("as", 256 * MIB, 2048 * MIB),
    "RLIMIT_STACK low": _limit("stack", MIB // 4, 2 * MIB),
    "RLIMIT_MEMLOCK low": _limit("memlock", 4096, MIB),
}
WHERE = tuple(SETTINGS)


def trials(bench: Bench, where: str, seeds: Iterable[int]) -> Iterator[Outcome]:
    for seed in seeds:
        yield _trial(bench, where, seed)


def _trial(bench: Bench, where: str, seed: int) -> Outcome:
    dice = random.Random(f"{seed}/{where}")
    limited = where.startswith("RLIMIT")
    before = SETTINGS[where](bench.home, dice)
    forget(bench)  # what is made in the cache is made under the setting
    bench.home.chmod(0o755)
    since = time.time()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        found = Path(directory, "found")
        with beside(found, lambda: reached((bench.home, Path("/run/kit"))), groups=(0,)):
            kit = Running(bench.words(ARMS if limited else MAPPED, *SEQUENTIAL), before=before, **bench.env)
            if killed := dice.random() < 0.5:
                kit.wait_for(lambda: bool(kit.acknowledged))
                kit.sleep_until(time.monotonic() - kit.began + 3 * dice.random())
                kit.kill()
            status = kit.end()
            wrong = _check(kit, status, killed, limited)
            wrong += _finish(bench, since, kit, limited)
        let_in = said(found)[:5]
    did = f"{' '.join(before[1:2]) if limited else ''} {'killed' if killed else f'ended with {status}'}"
    return Outcome(where, seed, did, tuple(wrong), tuple(let_in))


def _finish(bench: Bench, since: float, kit: Running, limited: bool) -> list[str]:
    begun = bench.newest(since)
    if limited and begun and begun.not_run:  # the limit kept an arm from being set up, and the session says so
        return [*check_acknowledged(begun, kit.acknowledged), *bench.left()]
    return finish(bench, since, kit, may_fail=limited)


def _check(kit: Running, status: int | None, killed: bool, limited: bool) -> list[str]:
    """A limit may end a session, with a line that says why; umasks and mounts may not."""
    if killed and status in (-9, 0):
        return []
    if not limited:
        return [] if status == 0 else [f"it ended with {status}: {kit.said[-300:]}"]
    if status not in (0, 1, 2, 3):
        return [f"it ended with {status}: {kit.said[-300:]}"]
    explained = status in (0, 3) or "fix: " in kit.said or "FAILED" in kit.said
    unexplained = [] if explained else [f"it ended with {status} and said no fix: {kit.said[-300:]}"]
    return [*unexplained, *check_said(kit.said)]
