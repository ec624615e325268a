"""What ``kit doctor`` says of tracers."""

from __future__ import annotations

from collections.abc import Iterator

from kit.extra.tracing.calls import find_call_tracer
from kit.extra.tracing.functions import find_functions
from kit.extra.tracing.perf import find_perf_tracer
from kit.host.cgroup.cgroup import Cgroup
from kit.host.interrupt import checkpoint
from kit.session.measure.context import MachineLease
from kit.session.measure.tracer import Level
from kit.session.trial import Diagnosis, own_fix


def tracing(lease: MachineLease) -> Iterator[Diagnosis]:
    """Return what kit compare --explain-calls and --profile can record here."""
    scratch, group = lease.scratch, Cgroup.named(lease.setting.cgroup)
    for find in (
        lambda: find_call_tracer(scratch, group),
        lambda: find_functions(scratch, group),
        lambda: find_perf_tracer(scratch),
    ):
        checkpoint()
        level: Level = find()[1]
        yield Diagnosis("tracing", level.name, level.works, level.reason, own_fix(level.fix))
