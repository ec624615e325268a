"""Start many kits together, as two users, with one store and lock each and one machine.

With ``--wait`` all are run, one after the other; without, all that find the machine taken refuse in a line that names
the holder.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from faults_trial import Bench, Outcome, Running, check_said, check_whole

import kit
from kit.model.session import Session
from kit.store import open_store

#: How many there are, and whether they wait.
CASES = {"three that wait": (3, True), "ten that wait": (10, True), "ten that do not wait": (10, False)}
WHERE = tuple(CASES)
USER = 4321


@dataclass(frozen=True)
class User:
    """``before``: words that run a command as this user."""

    home: Path
    arm: str
    before: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()

    def start(self, bench: Bench, wait: bool) -> Running:
        words = bench.words(self.arm, *(["--wait"] if wait else []), "--rounds", "1")
        return Running(words, before=self.before, **{"KIT_HOME": str(self.home), **dict(self.env)})

    def session(self, running: Running) -> Session:
        store = open_store(f"sqlite:///{self.home}/data/kit.db", self.home / "data/kit.db", read_only=True)
        try:
            return store.get(running.session)
        finally:
            store.close()


@contextmanager
def users(bench: Bench) -> Iterator[tuple[User, User]]:
    """Root, and one that is not, where that one may read Python and the kit; else root with another KIT_HOME."""
    places = [Path(kit.__file__).parent.parent, *(Path(item) for item in sys.path if "site-packages" in item)]
    root = User(bench.home, "bare")
    with tempfile.TemporaryDirectory(prefix="kit-faults-", dir="/tmp") as directory:
        home = Path(directory)
        home.chmod(0o755)
        if not all(map(_reachable, (*places, Path(sys.executable).parent, bench.image))):
            yield root, User(home / "home", "bare")
            return
        os.chown(home, USER, USER)
        before = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--")
        env = {"PYTHONPATH": ":".join(map(str, places)), "HOME": directory, "TMPDIR": directory}
        yield root, User(home / "home", "host@dir", before, tuple(env.items()))


def _reachable(path: Path) -> bool:
    """Whether any user may read it."""
    return all(part.stat().st_mode & 0o004 and part.stat().st_mode & (0o001 if part.is_dir() else 0o004)
               for part in (path, *path.parents))  # fmt: skip


def trials(bench: Bench, where: str, seeds: Iterable[int]) -> Iterator[Outcome]:
    for seed in seeds:
        with users(bench) as both:
            yield _start_together(bench, both, where, seed)


def _start_together(bench: Bench, both: tuple[User, User], where: str, seed: int) -> Outcome:
    dice = random.Random(f"{seed}/{where}")
    count, wait = CASES[where]
    owners = [both[number % 2] for number in range(count)]
    dice.shuffle(owners)
    began = time.monotonic()
    kits = []
    for owner in owners:
        kits.append((owner, owner.start(bench, wait)))
        time.sleep(0.05 * dice.random())
    wrong: list[str] = []
    spans, refused = [], 0
    for owner, running in kits:
        status = running.end(60 * count)
        wrong += check_said(running.said)
        if status == 0:
            session = owner.session(running)
            wrong += check_whole(session, running.acknowledged)
            spans += [_span(session)]
        elif not wait and status == 1 and "is running; concurrent sessions would disturb" in running.said:
            refused += 1
        else:
            wrong.append(f"one ended with {status}: {running.said[-300:]}")
    spans.sort()
    wrong += ["two measured together" for one, other in pairwise(spans) if other[0] < one[1]]
    wrong += [] if spans else ["none was run"]
    whose = "root twice" if both[1].before == () else "root and another user"
    did = f"{whose}: {len(spans)} run, {refused} refused in {time.monotonic() - began:.0f} s"
    shutil.rmtree(both[1].home / "cache", ignore_errors=True)
    return Outcome(where, seed, did, (*wrong, *bench.left()))


def _span(session: Session) -> tuple[float, float]:
    """When its first run began, and its last ended, at least."""
    last = max(session.samples, key=lambda sample: sample.started)
    return min(item.started for item in session.samples), last.started + sum(item.real or 0.0 for item in last.phases)
