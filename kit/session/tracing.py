"""Where tracers are hung into a run: around each of its timed phases, inside the readings of counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.engines.place import Place
from kit.host.cgroup import Cgroup
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
    def around(self, phase: str, place: Place) -> Iterator[Sequence[Recording]]:
        """All of them attached while the block runs. Raises RunError where one can't be attached."""
        step = self.step
        subject = Traced(str(step.arm), step.block, phase, place.cgroup, self.group, self.scratch, self.log)
        with ExitStack() as stack:
            yield [stack.enter_context(tracer.around(subject)) for tracer in self.tracers]
