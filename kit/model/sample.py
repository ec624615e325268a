"""The measurements of one run of one arm. Times are seconds, sizes bytes, counts plain numbers; None is 'not
measured'."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any

from kit.core.codec import Code, Count, Finite, Moment
from kit.model.call import Call
from kit.model.metric import GREATEST, MEASURED, METRICS, SUM, Figures
from kit.model.profile import CpuProfile
from kit.parsers.figure import Reported
from kit.parsers.task import BuildTask

TOTAL = "total"
WARMUP, TRACED, IMPORTED = "warmup", "traced", "imported"


@dataclass(frozen=True)
class Phase(Figures):
    """One timed phase of one run. ``exit_code`` and ``signal`` are exact and exclude each other."""

    exit_code: Code | None = None
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
