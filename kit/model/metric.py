"""Metrics: the figures of a phase, a line for each. All other code reads this table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, get_origin, get_type_hints

from kit.core.codec import Amount, Finite

SECONDS, BYTES, JOULES, COUNT = "s", "B", "J", ""
#: Sources of a metric's noise. SPEED: also the machine's speed, which spins before and after a run measure. OWN: the
#: arm alone, as for a daemon, or for data left to write.
SPEED, OWN = "speed", "own"
#: A run's figure from those of its phases: their sum, the greatest, or, of what changes a level, the highest level: the
#: greatest sum up to the end of a phase. A workload that removes its build tree at the end needed its space.
SUM, GREATEST, LEVEL = "sum", "greatest", "level"


@dataclass(frozen=True)
class Metric:
    """One figure of a phase."""

    unit: str = SECONDS
    whole: str = SUM  # or GREATEST or LEVEL, of the run
    better: str = "less"  # or "more" of it
    compared: bool = False  # arms are compared by it, and thresholds may be of it; the rest is kept in the samples
    column: str = ""  # its heading in the table of a phase; '' where it has none
    whole_group: str = ""  # the metric that is shown there in its place where processes left the tree
    as_difference: bool = False  # compared there by its difference, since it is next to nothing on most baselines
    noise: str = ""  # SPEED, OWN or '', where it is as any other
    title: str = ""  # what it is in a heading
    parts: tuple[str, ...] = ()  # it is their sum, and no phase holds it
    otherwise: tuple[str, ...] = ()  # or the sum of these, where a part is not measured
    over: str = ""  # that sum is divided by this metric, where it is not 0
    name: str = ""  # that of its line

    @property
    def measured(self) -> bool:
        """Return False for a metric that is computed from others."""
        return not self.parts


@dataclass(frozen=True)
class Figures:
    """The table, and the figures of one phase of one run: a ClassVar is made of others. None is 'not measured'.
    A new line is a new column of the store: raise SCHEMA_VERSION with it. kit.model.metric_source says where each
    comes from.

    ``name`` is the phase's; ``status`` is ``ok`` or ``failed``.
    """

    name: str
    status: str
    real: Annotated[Amount | None, Metric(compared=True, column="real", noise=SPEED, title="real time")] = None
    user: Annotated[Amount | None, Metric(compared=True, column="user", whole_group="cgroup_user", noise=SPEED)] = None
    sys: Annotated[Amount | None, Metric(compared=True, column="sys", whole_group="cgroup_sys", noise=SPEED)] = None
    cgroup_user: Annotated[Amount | None, Metric(compared=True, noise=SPEED)] = None
    cgroup_sys: Annotated[Amount | None, Metric(compared=True, noise=SPEED)] = None
    cpu: ClassVar[Metric] = Metric(
        compared=True, noise=SPEED, parts=("cgroup_user", "cgroup_sys"), otherwise=("user", "sys")
    )
    outside: Annotated[Finite | None, Metric(compared=True, column="outside", as_difference=True, noise=OWN)] = None
    cpu_total: ClassVar[Metric] = Metric(compared=True, noise=SPEED, parts=("cpu", "outside"))
    flush: Annotated[Finite | None, Metric(compared=True, column="flush", noise=OWN)] = None
    durable: ClassVar[Metric] = Metric(
        compared=True, noise=SPEED, title="durable: real + flush", parts=("real", "flush")
    )
    flush_bytes: Annotated[Finite | None, Metric(BYTES)] = None
    flush_cpu: Annotated[Finite | None, Metric()] = None
    # The increase until its flush has ended.
    space: Annotated[Finite | None, Metric(BYTES, LEVEL, compared=True, title="space used")] = None
    inodes: Annotated[Finite | None, Metric(COUNT, LEVEL, compared=True, title="inodes used")] = None
    dirtied_bytes: Annotated[Finite | None, Metric(BYTES)] = None
    read_bytes: Annotated[Finite | None, Metric(BYTES)] = None
    write_bytes: Annotated[Finite | None, Metric(BYTES)] = None
    written: ClassVar[Metric] = Metric(
        BYTES, compared=True, title="written to the device", parts=("write_bytes", "flush_bytes")
    )
    amplification: ClassVar[Metric] = Metric(
        COUNT, compared=True, title="write amplification", parts=("written",), over="dirtied_bytes"
    )
    read_ops: Annotated[Finite | None, Metric(COUNT)] = None
    write_ops: Annotated[Finite | None, Metric(COUNT)] = None
    minor_faults: Annotated[Finite | None, Metric(COUNT)] = None
    major_faults: Annotated[Finite | None, Metric(COUNT)] = None
    voluntary_switches: Annotated[Finite | None, Metric(COUNT)] = None
    involuntary_switches: Annotated[Finite | None, Metric(COUNT)] = None
    max_rss: Annotated[Finite | None, Metric(BYTES, GREATEST)] = None
    # Peaks: of the arm's control group with its page cache, and of the processes that serve its filesystem.
    arm_memory: Annotated[Finite | None, Metric(BYTES, GREATEST)] = None
    daemon_memory: Annotated[Finite | None, Metric(BYTES, GREATEST)] = None
    peak_memory: ClassVar[Metric] = Metric(
        BYTES,
        GREATEST,
        compared=True,
        title="peak memory",
        parts=("arm_memory", "daemon_memory"),
        otherwise=("arm_memory",),
    )
    # Of the machine, and of the arm, its engine and its load.
    psi_cpu: Annotated[Finite | None, Metric()] = None
    psi_io: Annotated[Finite | None, Metric()] = None
    psi_memory: Annotated[Finite | None, Metric()] = None
    psi_cpu_own: Annotated[Finite | None, Metric()] = None
    psi_io_own: Annotated[Finite | None, Metric()] = None
    psi_memory_own: Annotated[Finite | None, Metric()] = None
    steal: Annotated[Finite | None, Metric()] = None
    swapped: Annotated[Finite | None, Metric(BYTES)] = None
    throttled: Annotated[Finite | None, Metric(COUNT)] = None
    # Of interleaved runs: number of slices; bytes written while frozen, and others' bytes in its slices.
    slices: Annotated[Finite | None, Metric(COUNT)] = None
    frozen_write_bytes: Annotated[Finite | None, Metric(BYTES)] = None
    others_write_bytes: Annotated[Finite | None, Metric(BYTES)] = None
    energy: Annotated[Finite | None, Metric(JOULES, compared=True, noise=SPEED)] = None


def _table() -> Mapping[str, Metric]:
    """Return the metrics in the order of the lines."""
    metrics: dict[str, Metric] = {}
    for name, kind in get_type_hints(Figures, include_extras=True).items():
        annotation = (
            getattr(Figures, name) if get_origin(kind) is ClassVar else getattr(kind, "__metadata__", (None,))[-1]
        )
        if isinstance(annotation, Metric):
            metrics[name] = replace(annotation, name=name)
    return metrics


METRICS = _table()
#: Metrics that a phase contains, and those by which arms are compared.
MEASURED = tuple(metric.name for metric in METRICS.values() if metric.measured)
COMPARED = tuple(metric.name for metric in METRICS.values() if metric.compared)
_OTHER = Metric()


def described(name: str) -> Metric:
    """Return the metric's record; for an unknown name, that of a time that is compared."""
    return METRICS.get(name, _OTHER)
