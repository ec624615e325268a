"""What one run of one arm measured. Times are seconds, sizes bytes, counts plain numbers; None is 'not measured'."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from kit.core.codec import Amount, Code, Count, Finite, Moment
from kit.parsers.figure import Reported

#: Metrics of a phase that add up over phases.
ADDITIVE = (
    "real",
    "user",
    "sys",
    "cgroup_user",
    "cgroup_sys",
    "elsewhere",
    "flush",
    "flush_bytes",
    "flush_cpu",
    "read_bytes",
    "write_bytes",
    "read_ops",
    "write_ops",
    "minor_faults",
    "major_faults",
    "voluntary_switches",
    "involuntary_switches",
    "psi_cpu",
    "psi_io",
    "psi_memory",
    "psi_cpu_own",
    "psi_io_own",
    "psi_memory_own",
    "steal",
)
TOTAL = "total"


@dataclass(frozen=True)
class Phase:
    """One timed phase of one run. docs/method.md defines each figure.

    ``status`` is ``ok`` or ``failed``; ``exit_code`` and ``signal`` are exact and exclude each other.
    """

    name: str
    status: str
    real: Amount | None = None
    user: Amount | None = None
    sys: Amount | None = None
    cgroup_user: Amount | None = None
    cgroup_sys: Amount | None = None
    elsewhere: Finite | None = None
    flush: Finite | None = None
    flush_bytes: Finite | None = None
    flush_cpu: Finite | None = None
    read_bytes: Finite | None = None
    write_bytes: Finite | None = None
    read_ops: Finite | None = None
    write_ops: Finite | None = None
    minor_faults: Finite | None = None
    major_faults: Finite | None = None
    voluntary_switches: Finite | None = None
    involuntary_switches: Finite | None = None
    max_rss: Finite | None = None
    psi_cpu: Finite | None = None
    psi_io: Finite | None = None
    psi_memory: Finite | None = None
    psi_cpu_own: Finite | None = None  # of the arm, its engine and its load; the three above are the machine's
    psi_io_own: Finite | None = None
    psi_memory_own: Finite | None = None
    steal: Finite | None = None
    exit_code: Code | None = None
    signal: Code | None = None
    reported: tuple[Reported, ...] = ()  # what the workload says of itself

    @property
    def cpu(self) -> float | None:
        """CPU of the arm: its cgroup's where that is counted, else the waited-for tree's."""
        return _sum(self.cgroup_user, self.cgroup_sys) if self.cgroup_user is not None else _sum(self.user, self.sys)

    @property
    def cpu_total(self) -> float | None:
        """CPU of the arm and what was spent elsewhere on its behalf."""
        return _sum(self.cpu, self.elsewhere)

    @property
    def whole(self) -> float | None:
        """Time until the work is done and its data are on the device."""
        return _sum(self.real, self.flush)

    def metric(self, name: str) -> float | None:
        value = getattr(self, name)
        return None if value is None else float(value)


@dataclass(frozen=True)
class Sample:
    """One run of one arm: its phases, and what is needed to judge whether it can be compared."""

    arm: str
    block: Count
    kind: str  # measured | warmup | imported
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
    flags: str = ""  # what hit this run from outside, by the burst rule; "" where nothing did
    load: str = ""  # what ran beside it on purpose; "" where nothing did
    repeats: Count | None = None  # the block that this run repeats because a run of it was flagged


_INPUT = "input "


def input_digest(name: str) -> str:
    """What the digest of a scenario's input is called."""
    return f"{_INPUT}{name}"


def is_input(digest: str) -> bool:
    """Whether a digest of that name is an input's."""
    return digest.startswith(_INPUT)


def _sum(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def total(phases: Iterable[Phase]) -> Phase:
    """Sum the additive metrics; a metric that one phase lacks is lacking in the total. Max RSS is the maximum."""
    listed = tuple(phases)
    sums: dict[str, Any] = {}
    for name in ADDITIVE:
        values = [phase.metric(name) for phase in listed]
        sums[name] = None if None in values else sum(value for value in values if value is not None)
    peaks = [phase.max_rss for phase in listed if phase.max_rss is not None]
    return Phase(name=TOTAL, status="ok", max_rss=max(peaks, default=None), **sums)


#: Those that hold one value each.
PHASE_FIELDS = tuple(item.name for item in fields(Phase) if item.name != "reported")
