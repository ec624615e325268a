"""A scenario with its inputs at hand: fills a place and runs the phases in it."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from kit.core.errors import MORE_ROOM, RunError, TimedOut
from kit.engines import Place
from kit.host.rest import IdleRate
from kit.image import Image
from kit.model.arm import Arm
from kit.model.sample import Phase, input_digest
from kit.model.scenario import Command, Scenario
from kit.parsers import parse_report
from kit.probe import Timing, probe_digest
from kit.session.input_cache import PreparedInput
from kit.session.measure import measure_phase
from kit.session.runlog import MOST_REPORT, last_lines, output_since
from kit.session.tracing import Tracing

_LAST_LINES = 6


class Saying:
    """A phase's part of its run's log. ``start``: where in it, ``began``: when, as Unix time."""

    def __init__(self, logfile: Path) -> None:
        self.logfile = logfile
        self.began = time.time()
        self.output: IO[bytes] = logfile.open("ab", buffering=0)
        self.start = self.output.tell()

    def __enter__(self) -> Saying:
        return self

    def __exit__(self, *error: object) -> None:
        self.output.close()


@dataclass(frozen=True)
class Workload:
    scenario: Scenario
    image: Image | None
    inputs: tuple[PreparedInput, ...]
    folder: str = ""  # of the inputs, where the points of a sweep have different ones

    def words(self, step: Command, place: Place) -> tuple[str, ...]:
        """The command of a step as the place at hand understands it."""
        inputs = f"{place.inputs}/{self.folder}" if self.folder else place.inputs
        names = {"tree": place.tree, "inputs": inputs}
        if self.scenario.lower:
            names["lower"] = self.scenario.lower if place.layered else f"{place.tree}/lower"
        if self.scenario.engine:
            names["engine"] = place.socket
        return step.render(names)

    def digests(self, arm: Arm) -> tuple[tuple[str, str], ...]:
        """What must be the same in two samples for a comparison. ``host`` has no image: the report flags that."""
        found = [("probe", probe_digest()), ("scenario", self.scenario.digest)]
        found += [(input_digest(item.name), item.digest) for item in self.inputs]
        if self.image and arm.placement != "host":
            found.append(("image", self.image.digest))
        return tuple(found)

    def fill(self, place: Place) -> Place:
        """Put the inputs into the tree, give it to the scenario's user. Untimed. Raises RunError."""
        for item in self.inputs:
            if item.into == "tree":
                try:
                    place.unpack(item.path)
                except RunError as error:
                    full = place.backing.full()
                    raise RunError(full or error.message, MORE_ROOM if full else error.hint) from None
        if self.scenario.lower and not place.layered:
            _do(place, ["cp", "-a", self.scenario.lower, f"{place.tree}/lower"])
        uid, gid = (int(part) for part in self.scenario.user.split(":"))
        if uid or gid:
            _do(place, ["chown", "-hR", f"{uid}:{gid}", place.tree])
        socket = place.engine() if self.scenario.engine else ""
        return replace(place, env={**place.env, **dict(self.scenario.env)}, uid=uid, gid=gid, socket=socket)

    def prepare(self, place: Place, logfile: Path) -> str:
        """Run the untimed steps. Returns what failed or timed out, or ''."""
        for step in self.scenario.prepare:
            try:
                with logfile.open("ab") as output:
                    timing = place.run(self.words(step, place), step.cwd, output)
            except TimedOut as reason:
                return last_words(f"{step.name} {reason.message}", logfile)
            if not timing.ok:
                return _explain(step, timing, logfile, place)
        return ""

    def run(
        self,
        place: Place,
        logfile: Path,
        phases: list[Phase],
        idle: IdleRate,
        on_phase: Callable[[str], None],
        tracing: Tracing,
    ) -> str:
        """Run the timed phases in order, adding each to ``phases``. Stops at a failure and returns it, or ''."""
        for step in self.scenario.phases:
            on_phase(step.name)
            with Saying(logfile) as saying:
                try:
                    words = self.words(step, place)
                    phase = measure_phase(step.name, place, words, step.cwd, saying.output, idle, tracing)
                except TimedOut as reason:
                    return last_words(f"{step.name} {reason.message}", logfile)
            phase, error = self.read(step, phase, place, saying)
            phases.append(phase)
            if error:
                return error
        return ""

    def read(
        self,
        step: Command,
        phase: Phase,
        place: Place,
        saying: Saying,
        clock: Callable[[float], float] | None = None,
    ) -> tuple[Phase, str]:
        """A phase that has ended, with what it says of itself; and why it failed, or ''. ``clock``: as Report.on_clock
        takes it, None where the phase was never frozen."""
        if phase.status != "ok":
            return phase, _explain(step, phase, saying.logfile, place)
        if not step.report:
            return phase, ""
        try:
            said = self._said(step.printer, place) if step.printer else output_since(saying.logfile, saying.start)
            found = parse_report(step.report, said)
            report = found.on_clock(clock) if clock else found.since(saying.began)
        except RunError as reason:
            return phase, f"{step.name}: {reason.message}"
        return replace(phase, reported=report.figures, tasks=report.tasks), ""

    def _said(self, printer: Command, place: Place) -> str:
        """What a phase's reporter prints: no part of the phase, nor of its log. Raises RunError."""
        return _do(place, self.words(printer, place), printer.cwd)


def _do(place: Place, argv: Sequence[str], cwd: str = ".") -> str:
    """An untimed command in a place, and what it said. Raises RunError with that."""
    with tempfile.TemporaryFile() as output:
        done = place.run(argv, cwd, output).ok
        output.seek(0)
        text = output.read(MOST_REPORT).decode(errors="replace")
    if not done:
        said = text.strip().splitlines() or ["it said nothing"]
        raise RunError(f"{shlex.join(argv)} failed: {said[-1]}", MORE_ROOM if place.backing.full() else "see its log")
    return text


def _explain(step: Command, outcome: Timing | Phase, logfile: Path, place: Place) -> str:
    if outcome.signal is not None:
        how = f"was killed by signal {outcome.signal}"
    else:
        how = f"failed with exit status {outcome.exit_code}"
    full = place.backing.full()
    return last_words(f"{step.name} {how}" + (f": {full}" if full else ""), logfile)


def last_words(what: str, logfile: Path) -> str:
    """What happened, and the last lines of what the workload said."""
    return "\n".join([what, *(f"  | {line}" for line in last_lines(logfile, _LAST_LINES))])
