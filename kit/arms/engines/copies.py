"""Several sandboxes of one arm as one: each command runs in all of them at once. Each has its timer and its control
group; their groups have one parent, which is counted, frozen and killed."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from kit.arms.engines.sandbox import Invocation, Sandbox
from kit.arms.probe import Probe, Timing
from kit.arms.probe.client import COUNTS
from kit.core.deadline import Deadline
from kit.core.errors import RunError
from kit.host.cgroup.cgroup import Cgroup


def as_one(sandboxes: Sequence[Sandbox]) -> Sandbox:
    """Return the sandboxes as one. Reports are those of the first."""
    first = sandboxes[0]

    def unpack(tarball: Path) -> None:
        for sandbox in sandboxes:
            sandbox.unpack(tarball)

    def engine() -> str:
        sockets = [sandbox.engine() for sandbox in sandboxes]
        return sockets[0]

    def rehearse(commands: Sequence[Invocation], deadline: Deadline | None, alive: Callable[[], str]) -> None:
        for sandbox in sandboxes:
            assert sandbox.rehearsal
            sandbox.rehearsal(commands, deadline, alive)

    return replace(
        first,
        cgroup=_parent([sandbox.cgroup for sandbox in sandboxes]),
        daemons=_parent([sandbox.daemons for sandbox in sandboxes]),
        probe=CopiesProbe([sandbox.probe for sandbox in sandboxes]),
        unpack=unpack,
        alive=lambda: next(filter(None, (sandbox.alive() for sandbox in sandboxes)), ""),
        engine=engine,
        own=tuple(path for sandbox in sandboxes for path in sandbox.own),
        rehearsal=rehearse if first.rehearsal else None,
    )


def _parent(groups: Sequence[Cgroup | None]) -> Cgroup | None:
    """Return the group that contains these: their parent, or the one group of all. Raises RunError."""
    existing = [group for group in groups if group]
    if not existing or all(group == existing[0] for group in existing):
        return groups[0]
    parent = existing[0].parent
    if len(existing) < len(groups) or any(group.parent != parent for group in existing):
        raise RunError("the copies of this arm have no common control group", "leave out this arm, or run one copy")
    return parent


class CopiesProbe(Probe):
    """The probes of several sandboxes as one. The output of the first is the command's; those of others are kept
    only if they fail."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        super().__init__(probes[0].connection)
        self._probes = probes
        self._outputs: Sequence[IO[bytes]] = ()

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        output: IO[bytes],
        uid: int = 0,
        gid: int = 0,
    ) -> None:
        """Request the command in every copy."""
        # Beside the log, on a disk: a build's output is of any length, and /tmp lies in memory on many machines.
        beside = None if isinstance(output.name, int) else Path(output.name).parent
        self._outputs = [output, *(tempfile.TemporaryFile(dir=beside) for _ in self._probes[1:])]  # noqa: SIM115
        for probe, file in zip(self._probes, self._outputs, strict=True):
            probe.start(argv, cwd=cwd, env=env, output=file, uid=uid, gid=gid)

    def suppress_syncs(self) -> None:
        for probe in self._probes:
            probe.suppress_syncs()

    def answers(self, patience: float) -> bool:
        """Return whether, within this number of seconds, the command has ended in every copy, or one died."""
        until = time.monotonic() + patience
        return all(probe.answers(max(0.0, until - time.monotonic())) for probe in self._probes)

    def timing(self, alive: Callable[[], str] = lambda: "") -> Timing:
        """Return the timing from the first copy's start to the last one's end, with the sum of their CPU and counts.
        Raises RunError as Probe does, for any copy."""
        output, *others = self._outputs
        timings = [probe.timing(alive) for probe in self._probes]
        for number, (timing, other) in enumerate(zip(timings[1:], others, strict=True), 2):
            if not timing.ok:
                other.seek(0)
                output.write(f"copy {number}:\n".encode())
                shutil.copyfileobj(other, output)
            other.close()
        output.flush()
        return joined(timings)

    def end(self) -> None:
        for probe in self._probes:
            probe.end()

    @contextmanager
    def aside(self) -> Iterator[None]:
        with ExitStack() as stack:
            for probe in self._probes:
                stack.enter_context(probe.aside())
            yield

    @property
    def ran(self) -> bool:
        return self._probes[0].ran


def joined(timings: Sequence[Timing]) -> Timing:
    """Return the timings of copies that ran at once as one: failed if any failed."""
    representative = next((timing for timing in timings if not timing.ok), timings[0])
    ended = max(timing.ended for timing in timings)
    counted = [name for name in COUNTS if getattr(representative, name) is not None]
    return replace(
        representative,
        **{name: sum(getattr(timing, name) for timing in timings) for name in ("user", "sys", *counted)},
        real=ended - min(timing.ended - timing.real for timing in timings),
        max_rss=max(timing.max_rss for timing in timings),
        ended=ended,
        copies=len(timings),
        spread=ended - min(timing.ended for timing in timings),
    )
