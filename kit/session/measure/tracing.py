"""Attaches tracers to a run: around each of its timed phases, inside the readings of counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.engines.sandbox import Sandbox
from kit.host.cgroup.cgroup import Cgroup
from kit.model.plan import PlanStep
from kit.trace.tracer import Recording, Traced, Tracer


@dataclass(frozen=True)
class Tracing:
    """The tracers of one run. ``group``: the session's; ``scratch``: a directory of its own; ``log``: the run's."""

    tracers: Sequence[Tracer]
    step: PlanStep
    group: Cgroup
    scratch: Path
    log: Path

    @contextmanager
    def around(self, phase: str, sandbox: Sandbox) -> Iterator[Sequence[Recording]]:
        """Attach all tracers for the length of the block. Raises RunError if one can't be attached."""
        step = self.step
        subject = Traced(str(step.arm), step.round, phase, sandbox.cgroup, self.group, self.scratch, self.log)
        with ExitStack() as stack:
            yield [stack.enter_context(tracer.around(subject)) for tracer in self.tracers]
