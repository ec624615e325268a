"""One kit under a fault: started as a user starts it, watched, killed; and what must hold afterwards."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kit.core.errors import KitError
from kit.model.sample import Sample
from kit.model.session import DONE, Session
from kit.store import SessionFilter, Store, open_store
from tests.command_line import in_new_process
from tests.leftovers import left_on_machine

#: Seconds that a kit may take for what it does in ten.
PATIENCE = 180.0
#: What the runs of a session do: a few tenths of a second of CPU, and files.
WORK = "i=0; while [ $i -lt 20 ]; do echo $i > f$i; cp f$i g$i; rm g$i; i=$((i+1)); done; "
WORK += "while [ $i -lt 50000 ]; do i=$((i+1)); done"
TITLE = "faults"
#: Options of sessions that show no figure.
FAST = ("--title", TITLE, "--cache", "cold", "--size", "3G", "--no-rerun", "--no-control", "--rounds", "2")
_SESSION = re.compile(r"session (\d{8}-\d{6}-\w+): ")
_RUN = re.compile(r"(?:\w+: )?\[\d+/\d+\] round (\d+) (\S+)  real ")


@dataclass(frozen=True)
class Outcome:
    """``what``: the fault and where; ``did``: what happened; ``wrong``: what should hold and does not; ``let_in``: what
    another user has reached, or made root do."""

    what: str
    seed: int
    did: str
    wrong: tuple[str, ...] = ()
    let_in: tuple[str, ...] = ()

    def __str__(self) -> str:
        problems = [*(f"LET IN: {item}" for item in self.let_in), *(f"FAULT: {item}" for item in self.wrong)]
        found = "; ".join(problems) or "survived"
        return " ".join(f"{self.what}, seed {self.seed}: {self.did}: {found}".split())


def print_table(outcomes: Iterable[Outcome]) -> int:
    """Print each outcome as it comes, then the table. Returns the exit status."""
    tried: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    let_in: Counter[str] = Counter()
    survived = 0
    for outcome in outcomes:
        print(f"{time.strftime('%H:%M:%S')} {outcome}", flush=True)
        tried[outcome.what] += 1
        lost[outcome.what] += bool(outcome.wrong)
        let_in[outcome.what] += bool(outcome.let_in)
        survived += not outcome.wrong and not outcome.let_in
    print("\n| fault | tried | result |\n| --- | --- | --- |")
    for what, count in tried.items():
        bad = [f"{word} {number[what]}" for word, number in (("lost", lost), ("let in", let_in)) if number[what]]
        print(f"| {what} | {count} | {', '.join(bad) or 'nothing lost'} |")
    print(f"survived {survived} of {tried.total()}")
    return int(survived < tried.total() or not tried)


class Running:
    """A kit in a process of its own, with the lines of its progress as they come."""

    def __init__(self, words: Sequence[str | Path], before: Sequence[str] = (), **env: str) -> None:
        """``before``: words of a command that runs the kit, as setpriv does."""
        self.began = time.monotonic()
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "kit", *map(str, words)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            env={**os.environ, **env},
        )  # fmt: skip
        atexit.register(self.process.kill)  # where the campaign itself is ended
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        self.lines.extend(line.rstrip("\n") for line in iter(self.process.stderr.readline, ""))

    @property
    def said(self) -> str:
        return "\n".join(self.lines)

    @property
    def session(self) -> str:
        """Its id; '' before it has said it."""
        found = _SESSION.search(self.said)
        return found[1] if found else ""

    @property
    def acknowledged(self) -> list[tuple[int, str]]:
        """Runs of which it has said that they are over: round and arm."""
        return [(int(round_), arm) for round_, arm in _RUN.findall(self.said)]

    @property
    def not_stored(self) -> bool:
        """Whether it has said that runs are kept nowhere."""
        return "NOT STORED" in self.said

    @property
    def last(self) -> str:
        return self.lines[-1][:60] if self.lines else ""

    def runs(self) -> bool:
        return self.process.poll() is None

    def sleep_until(self, moment: float) -> None:
        """Return that many seconds after its start, or when it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, moment - (time.monotonic() - self.began)))

    def wait_for(self, found: Callable[[], bool], patience: float = PATIENCE) -> bool:
        """Whether that comes before it ends."""
        deadline = time.monotonic() + patience
        while self.runs() and time.monotonic() < deadline:
            if found():
                return True
            time.sleep(0.005)
        return found()

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self, patience: float = PATIENCE) -> int | None:
        """Its exit status; None where it had to be killed, because it did not end."""
        try:
            status: int | None = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            status = None
        self._reader.join(10)
        atexit.unregister(self.process.kill)
        return status


@dataclass(frozen=True)
class Bench:
    """``home``: the KIT_HOME of the sessions; ``before``: what others had left on the machine; ``store``: its URL, ''
    for the one in ``home``."""

    home: Path
    image: Path
    before: frozenset[str] = frozenset()
    programs: frozenset[int] = frozenset()  # of BPF that were loaded before
    store: str = ""

    @property
    def env(self) -> Mapping[str, str]:
        return {"KIT_HOME": str(self.home), **({"KIT_STORE": self.store} if self.store else {})}

    def words(self, arms: str, *more: str, work: str = WORK) -> list[str]:
        return ["compare", "--image", str(self.image), *FAST, "--arms", arms, *more, "--", "sh", "-c", work]

    def start(self, *words: str | Path, **env: str) -> Running:
        return Running(words, **{**self.env, **env})

    def kit(self, *words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return in_new_process(*words, timeout=PATIENCE, **{**self.env, **env})

    def newest(self, since: float) -> Session | None:
        """The newest session of the store that began since, by this machine's clock; None where there is none."""
        store = self._open()
        try:
            found = [item for item in store.list(SessionFilter(), most=50) if since <= item.created <= time.time()]
            return store.get(found[0].id) if found else None
        finally:
            store.close()

    def get(self, session: str) -> Session:
        store = self._open()
        try:
            return store.get(session)
        finally:
            store.close()

    def has(self, session: str) -> bool:
        try:
            return bool(session and self.get(session))
        except KitError:
            return False

    def _open(self) -> Store:
        return open_store(self.store, self.home / "data/kit.db", read_only=True)

    def left(self) -> list[str]:
        """What is left of sessions, on the machine and in ``home``. What is ending has ten seconds for it."""
        deadline = time.monotonic() + 10
        while found := [*self._on_machine(), *self._processes(), *self._files()]:
            if time.monotonic() > deadline:
                return [f"left: {item[:160]}" for item in found]
            time.sleep(0.1)
        return []

    def _on_machine(self) -> list[str]:
        """Of loop devices only those of this home and its workers'."""
        found = set(left_on_machine()) - self.before
        return [
            item for item in found if "/state/loops/" not in item or f"{self.home}/" in item or f"{self.home}-" in item
        ]

    def left_programs(self) -> list[str]:
        """BPF programs that are loaded now and were not before. What a process has opened is left with that one: ours
        are named by ``left``, others are no fault."""
        found = set(_loaded_programs()) - self.programs - _opened_programs()
        return [f"left: BPF program {number}" for number in sorted(found)]

    def _processes(self) -> list[str]:
        """Those that name the home, and kits that have it in their environment, but for this one."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            if int(path.name) in (os.getpid(), os.getppid()):
                continue
            with suppress(OSError):
                command = (path / "cmdline").read_bytes()
                environ = (path / "environ").read_bytes().split(b"\0")
                if f"{self.home}/".encode() in command or (
                    b"-m\0kit" in command and f"KIT_HOME={self.home}".encode() in environ
                ):
                    found.append(f"process {path.name}: {command.replace(bytes(1), b' ').decode(errors='replace')}")
        return found

    def _files(self) -> list[str]:
        """Of the state directory all but empty directories, and what is half made in the cache."""
        state, cache = self.home / "state", self.home / "cache"
        found = [path for path in state.rglob("*") if not path.is_dir()]
        return [str(path) for path in (*found, *cache.glob("*/.new-*"), *cache.glob("*/.scratch-*"))]


def make_bench(home: Path, image: Path) -> Bench:
    """Make ``home`` the KIT_HOME of this process and of all that it starts."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["KIT_HOME"] = str(home)
    return Bench(home, image, frozenset(left_on_machine()), frozenset(_loaded_programs()))


def _loaded_programs() -> Iterator[int]:
    """Ids of all BPF programs in the kernel, by BPF_PROG_GET_NEXT_ID of bpf(2)."""
    number = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine)
    last = 0
    while number:
        asked = struct.pack("3I", last, 0, 0)
        answer = ctypes.create_string_buffer(asked, len(asked))
        if ctypes.CDLL(None).syscall(number, 11, answer, len(asked)):
            return
        last = struct.unpack("3I", answer.raw)[1]
        yield last


def _opened_programs() -> set[int]:
    """Ids of the BPF programs of which any process has a descriptor."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/fdinfo/*"):
        with suppress(OSError):
            found |= {int(number) for number in re.findall(r"^prog_id:\s*(\d+)", path.read_text(), re.MULTILINE)}
    return found


def check_whole(session: Session, acknowledged: Iterable[tuple[int, str]] = (), may_fail: bool = False) -> list[str]:
    """Why a session is not done with each of its planned runs once; ``may_fail``: as failed, and named, too."""
    wrong = [] if session.status == DONE else [f"session {session.id} is {session.status}"]
    planned = Counter((round_, arm) for round_ in range(1, (session.request.rounds or 0) + 1) for arm in session.arms)
    wrong += [f"{item.arm} was not run: {item.reason}" for item in session.not_run]
    found = Counter(map(_key, _measured(session)))
    if found != planned:
        wrong.append(f"runs missing: {sorted(planned - found)}, too many: {sorted(found - planned)}")
    wrong += check_acknowledged(session, acknowledged)
    bad = [item for item in _measured(session) if item.status != "ok" and not (may_fail and item.error)]
    return wrong + [f"{item.arm} failed: {item.error[:200]}" for item in bad]


def check_acknowledged(session: Session, acknowledged: Iterable[tuple[int, str]]) -> list[str]:
    """Which runs the kit has said to be over that are not in the store."""
    lost = set(acknowledged) - {_key(sample) for sample in _measured(session)}
    return [f"acknowledged and lost: {sorted(lost)}"] if lost else []


def check_kept(before: Session, after: Session) -> list[str]:
    """Which runs have changed since."""
    now = {_key(sample): sample for sample in _measured(after)}
    same = [replace(now[_key(old)], flags=old.flags) == old for old in _measured(before) if _key(old) in now]
    return [] if all(same) else [f"{same.count(False)} stored runs have changed"]


def _measured(session: Session) -> list[Sample]:
    return [sample for sample in session.samples if sample.kind == "measured" and sample.rerun_of is None]


def _key(sample: Sample) -> tuple[int, str]:
    return sample.round, sample.arm


def check_said(said: str) -> list[str]:
    """A refusal is a line with its fix, never a traceback."""
    if "Traceback" in said:
        return ["a traceback: " + said.strip().splitlines()[-1][:200]]
    return []


def finish(bench: Bench, since: float, *seen: Running, may_fail: bool = False) -> list[str]:
    """Finish the newest session that began since, which may have begun in none: then nothing may be lost or left."""
    try:
        begun = bench.newest(since)
    except KitError as error:
        return [f"the store: {error.message}", *bench.left()]
    if begun:
        return finish_session(bench, begun, *seen, may_fail=may_fail)
    acknowledged = [run for kit in seen for run in kit.acknowledged]
    lost = [f"lost with its session: {acknowledged}"] if acknowledged else []
    return [*(problem for kit in seen for problem in check_said(kit.said)), *lost, *bench.left()]


def finish_session(bench: Bench, begun: Session, *seen: Running, may_fail: bool = False) -> list[str]:
    """Finish a session by --resume: each planned run is in the store once, what was acknowledged as it was; and nothing
    is left."""
    wrong = [problem for kit in seen for problem in check_said(kit.said)]
    acknowledged = [run for kit in seen if not kit.not_stored for run in kit.acknowledged]
    wrong += check_acknowledged(begun, acknowledged)
    done = bench.kit("compare", "--resume", begun.id)
    if done.returncode not in ((0, 1) if may_fail else (0,)):
        wrong.append(f"--resume ends with {done.returncode}: {done.stderr.strip()[-300:]}")
    if (
        begun.status == DONE and (clean := bench.kit("clean")).returncode
    ):  # it was killed after its end: nothing to resume
        wrong.append(f"kit clean ends with {clean.returncode}: {clean.stderr[-300:]}")
    after = bench.get(begun.id)
    return [
        *wrong,
        *check_said(done.stderr),
        *check_whole(after, acknowledged, may_fail),
        *check_kept(begun, after),
        *bench.left(),
    ]
