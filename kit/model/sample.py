"""The measurements of one run of one arm. Times are seconds, sizes bytes, counts plain numbers; None is 'not
measured'."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any

from kit.core.codec import Amount, Code, Count, Finite, Moment
from kit.model.metric import GREATEST, MEASURED, METRICS, SUM, Figures
from kit.model.profile import CpuProfile
from kit.parsers.figure import Reported
from kit.parsers.task import BuildTask

# Records of traced runs: system calls, requests to a FUSE daemon, page faults, each by kind.

#: A system call; a request to a FUSE daemon, by opcode; page faults that waited; files copied from a lower layer to the
#: upper one; a function of the kernel's, with what it calls; what a tracer could not record.
CALL, FUSE, FAULT, COPY_UP, FUNCTION, LOST = "call", "fuse", "fault", "copy-up", "function", "lost"
#: Names of rows: page faults, calls whose end was not recorded, calls before the tracer started.
PAGE_FAULT, NOT_RECORDED = "page fault", "not recorded"
#: Objects of copy-ups; new files of which nothing says whether they were copied or created; files by whether their
#: filesystem says which data they have alone, those bytes; unions whose copy-ups are unknown, without their upper
#: directory.
FILE, DIRECTORY, UNMARKED = "file", "directory", "copied or created"
WITH_DATA, NO_DATA, UNSEEN = "data of files", "data not known", "union not seen"


@dataclass(frozen=True)
class Call:
    """All calls of one name in one phase of one traced run, summed over all processes of the arm. Times are seconds."""

    name: str
    count: Count
    #: From entry to exit, in all; of these it was off the CPU in the four states below.
    seconds: Amount = 0.0
    #: In uninterruptible sleep: disk, network filesystem, a lock in the kernel; for fork calls, the child's exec.
    disk: Amount = 0.0
    daemon: Amount = 0.0  # while a request of it to a FUSE daemon was under way
    slept: Amount = 0.0  # otherwise asleep: pipe, child, futex, timer
    ready: Amount = 0.0  # able to run, while others had the CPU
    #: Log2 of the nanoseconds of a whole call; how many calls lay between that power and the next.
    histogram: tuple[tuple[Count, Count], ...] = ()
    errors: tuple[tuple[str, Count], ...] = ()  # names of errno values (EXDEV), and how often
    kind: str = CALL
    #: Of copy-ups: the sizes of the files, or the data that the copies have alone.
    bytes: Amount = 0.0

    @property
    def cpu(self) -> float:
        """Return the seconds in the kernel on a CPU."""
        return max(0.0, self.seconds - self.disk - self.daemon - self.slept - self.ready)


TOTAL = "total"
WARMUP, TRACED, IMPORTED = "warmup", "traced", "imported"


@dataclass(frozen=True)
class Phase(Figures):
    """One timed phase of one run."""

    exit_code: Code | None = None  # exact, and excludes a signal
    signal: Code | None = None
    reported: tuple[Reported, ...] = ()  # what the workload says of itself
    tasks: tuple[BuildTask, ...] = ()  # and what it consists of
    calls: tuple[Call, ...] = ()  # of a traced run alone
    profiles: tuple[CpuProfile, ...] = ()  # and of one of these alone: one, or none

    def metric(self, name: str) -> float | None:
        value = getattr(self, name)
        return None if value is None else float(value)


@dataclass(frozen=True)
class Sample:
    """One run of one arm: its phases, and the conditions that decide its comparability."""

    arm: str
    round: Count
    kind: str  # measured | warmup | imported | traced
    status: str  # ok | failed
    started: Moment  # Unix time
    phases: tuple[Phase, ...]
    calibration_before: Finite | None = None  # seconds that fixed arithmetic took
    calibration_after: Finite | None = None
    memory_before: Finite | None = None  # seconds that fixed page faults and loads from memory took
    memory_after: Finite | None = None
    engine_seconds: Finite | None = None  # placing and releasing: the engine's own work, never inside `real`
    error: str = ""
    log: str = ""
    digests: tuple[tuple[str, str], ...] = field(default=())  # image, sources, scenario, probe
    point: str = ""  # value of the swept parameters, "jobs=2"; "" where none is swept
    flags: str = ""  # what disturbed this run; "" where nothing did
    load: str = ""  # what ran beside it on purpose; "" where nothing did
    rerun_of: Count | None = None  # the round of which this is a rerun, because a run of it was flagged

    @property
    def counts(self) -> bool:
        """Return whether its figures are a measurement: those of warm-up and traced runs are not."""
        return self.kind not in (WARMUP, TRACED)


_INPUT = "input "
#: The digest that states the run order of a round; a run without it is sequential.
RUN_ORDER, SEQUENTIAL, INTERLEAVED = "run order", "sequential", "interleaved"
#: Its value for runs of a tool that does not pair them: runs of one number have nothing in common.
UNPAIRED = "unpaired"


def run_order(seconds: float | None) -> str:
    """Return the value of that digest, and of the fact of the same name, for a slice length in seconds."""
    return SEQUENTIAL if seconds is None else INTERLEAVED


def input_digest(name: str) -> str:
    """Return the name of the digest of a scenario's input."""
    return f"{_INPUT}{name}"


def is_input(digest: str) -> bool:
    """Return whether a digest of that name is an input's."""
    return digest.startswith(_INPUT)


def total(phases: Iterable[Phase]) -> Phase:
    """Return each metric of the whole run. A sum or a level needs the metric of every phase."""
    listed = tuple(phases)
    metrics: dict[str, Any] = {}
    for name in MEASURED:
        values = [value for phase in listed if (value := phase.metric(name)) is not None]
        if METRICS[name].whole == GREATEST:
            metrics[name] = max(values, default=None)
        elif len(values) < len(listed):
            metrics[name] = None
        else:
            metrics[name] = sum(values) if METRICS[name].whole == SUM else max(accumulate(values), default=None)
    return Phase(name=TOTAL, status="ok", **metrics)


#: Fields that contain one value each.
_LISTS = ("reported", "tasks", "calls", "profiles")
PHASE_FIELDS = tuple(field.name for field in fields(Phase) if field.name not in _LISTS)
