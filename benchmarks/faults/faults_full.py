"""Fill or break the disk, or the store, under a session at a random moment.

Its data, cache, state, run or temporary directory lies on a small filesystem that fills, reaches a quota, returns EIO,
or becomes read-only. Its store is cut off, replaced, made by a newer kit, locked, opened without locks, or a PostgreSQL
that dies and returns. The session must end with a line that says why, or go on; once the fault is fixed nothing is
lost but what it has called not stored, and the session is resumed.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from faults_kill import SEQUENTIAL
from faults_trial import Bench, Outcome, check_said, finish

from tests.postgresql import running_server

MIB = 1 << 20
ARMS = "bare,layer:overlay2"
SMALL = (*SEQUENTIAL, "--size", "200M")


@dataclass(frozen=True)
class Fault:
    """``strike`` breaks something while a session runs, ``fix`` undoes it. ``bench``: the one to run the session with,
    ``env``: what its environment has besides. ``keeps``: what is stored outlives the fault."""

    bench: Bench
    strike: Callable[[], object]
    fix: Callable[[], object]
    env: tuple[tuple[str, str], ...] = ()
    keeps: bool = True


MakeFault = Callable[[Bench, random.Random], AbstractContextManager[Fault]]


def trials(bench: Bench, where: str, seeds: Iterable[int]) -> Iterator[Outcome]:
    for seed in seeds:
        yield _fill_arm(bench, where, seed) if where == FULL_ARM else _trial(bench, where, seed)


def _trial(bench: Bench, where: str, seed: int) -> Outcome:
    dice = random.Random(f"{seed}/{where}")
    length = _length(bench)
    since, after = time.time(), length * dice.random()
    with FAULTS[where](bench, dice) as fault:
        kit = fault.bench.start(*fault.bench.words(ARMS, *SMALL), **dict(fault.env))
        kit.sleep_until(after)
        did = f"after {after:.2f} of {length:.1f} s ('{kit.last}')"
        fault.strike()
        status = kit.end()
        wrong = [] if status in (0, 1, 2) else [f"it ended with {status}: {kit.said[-300:]}"]
        wrong += check_said(kit.said)
        if status and "fix: " not in kit.said and "FAILED" not in kit.said:
            wrong.append(f"it ended with {status} and said no fix: {kit.said[-300:]}")
        fault.fix()
        for command in ("sync", "clean"):
            done = fault.bench.kit(command)
            wrong += [f"kit {command}: {done.stderr[-300:]}"] if done.returncode else check_said(done.stderr)
        wrong += fault.bench.left()
        wrong += finish(fault.bench, since, *([kit] if fault.keeps else []), may_fail=True)
    return Outcome(where, seed, f"{did}, ended with {status}", tuple(wrong))


@cache
def _length(bench: Bench) -> float:
    """Seconds that a session takes here, with image and probe in the cache."""
    began = time.monotonic()
    done = bench.kit(*bench.words(ARMS, *SMALL))
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began


FULL_ARM = "ENOSPC of an arm"


def _fill_arm(bench: Bench, where: str, seed: int) -> Outcome:
    """An arm's own filesystem is filled by its workload."""
    dice = random.Random(f"{seed}/{where}")
    count = dice.randrange(400, 800)
    kit = bench.start(
        *bench.words(ARMS, "--size", "400M", *SEQUENTIAL, work=f"dd if=/dev/zero of=big bs=1M count={count}")
    )
    status = kit.end()
    wrong = [] if status == 1 else [f"it ended with {status}: {kit.said[-300:]}"]
    wrong += [] if "is full" in kit.said or "No space" in kit.said else [f"no word of a full disk: {kit.said[-300:]}"]
    return Outcome(where, seed, f"{count} MiB into 400 MiB", (*wrong, *check_said(kit.said), *bench.left()))


@contextmanager
def _mounted(where: Path, *words: str | Path) -> Iterator[None]:
    where.mkdir(parents=True, exist_ok=True, mode=0o700)
    subprocess.run(["mount", *map(str, words), where], check=True)
    where.chmod(0o700 if where.name != "kit" else 0o711)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", where], check=True)


def _fill(where: Path, dice: random.Random) -> None:
    """But for a random rest: what is small may still be written."""
    rest = dice.choice((0, 0, 4096, 65536))
    with (where / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(65536))
    if rest:
        size = (where / "filler").stat().st_size
        with suppress(OSError):  # at its quota btrfs has no room for that either
            os.truncate(where / "filler", max(0, size - rest))


def _place(bench: Bench, name: str) -> tuple[Path, tuple[tuple[str, str], ...]]:
    """A directory of a session, and what names it in the environment."""
    if name == "run":
        return Path("/run/kit"), ()
    if name == "temp":
        return bench.home / "temp", (("TMPDIR", str(bench.home / "temp")),)
    return bench.home / name, ()


def _enospc(name: str) -> MakeFault:
    @contextmanager
    def made(bench: Bench, dice: random.Random) -> Iterator[Fault]:
        where, env = _place(bench, name)
        with _mounted(where, "-t", "tmpfs", "-o", "size=256M", "kit-faults"):
            yield Fault(bench, lambda: _fill(where, dice), (where / "filler").unlink, env)

    return made


@contextmanager
def _edquot(bench: Bench, dice: random.Random) -> Iterator[Fault]:
    """A quota group of btrfs, which holds for root, too: the data directory."""
    with _disk(bench, "btrfs") as (where, _, _):
        subprocess.run(["btrfs", "quota", "enable", where], check=True)

        def strike() -> None:
            subprocess.run(["btrfs", "qgroup", "limit", "8M", where], check=True, capture_output=True)
            _fill(where, dice)

        def fix() -> None:
            subprocess.run(["btrfs", "quota", "disable", where], check=True, capture_output=True)
            (where / "filler").unlink()

        yield Fault(bench, strike, fix)


@contextmanager
def _disk(bench: Bench, kind: str) -> Iterator[tuple[Path, Path, str]]:
    """The data directory on a loop device whose file lies on a tmpfs: the directory, the tmpfs, the device."""
    where, below = bench.home / "data", bench.home.with_name(f"{bench.home.name}-disk")
    with ExitStack() as stack:
        stack.enter_context(_mounted(below, "-t", "tmpfs", "-o", "size=300M", "kit-faults"))
        image = below / "image"
        image.touch()
        os.truncate(image, 400 * MIB)
        subprocess.run([f"mkfs.{kind}", "-q", image], check=True, capture_output=True)
        loop = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True, text=True)
        device = loop.stdout.strip()
        stack.callback(subprocess.run, ["losetup", "-d", device], check=True)
        stack.enter_context(_mounted(where, device))
        yield where, below, device


@contextmanager
def _eio(bench: Bench, dice: random.Random) -> Iterator[Fault]:
    """What the disk can't write it refuses by EIO, as one does that is thinly provisioned."""
    with _disk(bench, "ext4") as (where, below, device):

        def fix() -> None:
            (below / "filler").unlink()
            _check_disk(where, device)

        yield Fault(bench, lambda: _fill(below, random.Random(0)), fix)


@contextmanager
def _read_only(bench: Bench, dice: random.Random) -> Iterator[Fault]:
    """The kernel makes a filesystem read-only when it finds an error in it."""
    with _disk(bench, "ext4") as (where, _, device):
        subprocess.run(["mount", "-o", "remount,errors=remount-ro", where], check=True)
        trigger = Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error")
        yield Fault(bench, lambda: trigger.write_text("1"), lambda: _check_disk(where, device))


def _check_disk(where: Path, device: str) -> None:
    """Unmount, check and mount it again."""
    subprocess.run(["umount", where], check=True)
    subprocess.run(["e2fsck", "-fy", device], check=False, capture_output=True)
    subprocess.run(["mount", device, where], check=True)


def _damaged(how: str) -> MakeFault:
    """A store that is no longer one; the fix is what the message says, to move it away."""

    @contextmanager
    def made(bench: Bench, dice: random.Random) -> Iterator[Fault]:
        store = bench.home / "data/kit.db"

        def strike() -> None:
            if not store.exists():
                return
            if how == "truncated":
                os.truncate(store, dice.randrange(store.stat().st_size + 1))
            elif how == "replaced":
                new = store.with_name("new")
                new.write_text("a text\n" * 100)
                new.replace(store)
            else:
                with suppress(sqlite3.OperationalError), sqlite3.connect(store, timeout=30) as connection:
                    connection.execute("UPDATE kit_schema SET version = 999")

        def fix() -> None:
            for path in (bench.home / "data").glob("kit.db*"):
                path.unlink()

        yield Fault(bench, strike, fix, keeps=False)

    return made


@contextmanager
def _locked(bench: Bench, dice: random.Random) -> Iterator[Fault]:
    """Another program has the store's lock, for longer than a session waits."""
    store = bench.home / "data/kit.db"
    with ExitStack() as stack:
        connection = sqlite3.connect(store, isolation_level=None, timeout=30)
        stack.callback(connection.close)
        yield Fault(bench, lambda: connection.execute("BEGIN EXCLUSIVE"), lambda: connection.execute("ROLLBACK"))


@contextmanager
def _without_locks(bench: Bench, dice: random.Random) -> Iterator[Fault]:
    """A filesystem without locks, as SQLite is told of one, while another kit reads."""
    (bench.home / "data").mkdir(parents=True, exist_ok=True, mode=0o700)
    url = f"sqlite:///file:{bench.home}/data/nolock.db?nolock=1&uri=true"
    mine = replace(bench, store=url)

    def fix() -> None:
        with sqlite3.connect(bench.home / "data/nolock.db") as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    yield Fault(mine, lambda: mine.kit("sessions"), fix)


@contextmanager
def _postgresql(bench: Bench, dice: random.Random) -> Iterator[Fault]:
    """The server is killed, and started again while the session may still run."""
    with running_server(Path("/tmp") / f"kit-faults-postgresql-{os.getpid()}") as server:
        pause = 6 * dice.random()

        def strike() -> None:
            server.kill()
            time.sleep(pause)
            server.start()

        yield Fault(replace(bench, store=server.url), strike, lambda: None)


FAULTS: dict[str, MakeFault] = {
    **{f"ENOSPC of {name}": _enospc(name) for name in ("data", "cache", "state", "run", "temp")},
    "EDQUOT of data": _edquot,
    "EIO of data": _eio,
    "data read-only": _read_only,
    **{f"store {how}": _damaged(how) for how in ("truncated", "replaced", "newer")},
    "store locked": _locked,
    "store without locks": _without_locks,
    "PostgreSQL killed": _postgresql,
}
WHERE = (*FAULTS, FULL_ARM)
