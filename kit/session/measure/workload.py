"""A scenario with its inputs: fills a sandbox, runs the untimed steps in it, and reads what the phases report."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from kit.arms.engines import EngineConfig, Sandbox
from kit.arms.engines.registry import Registry, serve_registry
from kit.arms.image import Image
from kit.arms.probe import Timing, probe_digest
from kit.core.errors import MORE_ROOM, RunError, TimedOut
from kit.model.arm import COMMAND, REVISION, Arm
from kit.model.metric import METRICS
from kit.model.sample import Phase, input_digest
from kit.model.scenario import Command, Scenario
from kit.parsers import NOTHING, Report, parse_report
from kit.session.inputs.input_cache import PreparedInput
from kit.session.measure.phase_log import MOST_REPORT, PhaseLog, last_lines, output_since

_LAST_LINES = 6


@dataclass(frozen=True)
class Workload:
    scenario: Scenario
    image: Image | None
    inputs: tuple[PreparedInput, ...]
    folder: str = ""  # of the inputs, if the points of a sweep have different ones
    shown: Path | None = None  # this machine's directory of the inputs
    command: str = ""  # the arm's, of several

    def of(self, arm: Arm) -> Workload:
        """Return the workload as the arm runs it: with its own command and revision of the sources, of several."""
        command = dict(self.scenario.commands).get(arm.option(COMMAND), "")
        inputs = tuple(prepared for prepared in self.inputs if prepared.revision in ("", arm.option(REVISION)))
        return replace(self, command=command, inputs=inputs)

    def words(self, step: Command, sandbox: Sandbox) -> tuple[str, ...]:
        """Return the command of a step for this sandbox."""
        inputs = f"{sandbox.inputs}/{self.folder}" if self.folder else sandbox.inputs
        names = {"tree": sandbox.tree, "inputs": inputs}
        if self.scenario.lower:
            names["lower"] = self.scenario.lower if sandbox.layered else f"{sandbox.tree}/lower"
        if self.scenario.engine:
            names["engine"] = sandbox.socket
        if self.scenario.registry:
            names["registry"] = sandbox.registry
        if self.command:
            step = replace(step, run=step.render({"command": self.command}))
        return step.render(names)

    def digests(self, arm: Arm) -> tuple[tuple[str, str], ...]:
        """Return what must be equal in two comparable samples. ``host`` has no image: the report flags that."""
        digests = [("probe", probe_digest()), ("scenario", self.scenario.digest)]
        digests += [
            (input_digest(f"{prepared.name} {prepared.revision}".strip()), prepared.digest) for prepared in self.inputs
        ]
        if self.command:
            digests.append((f"command {arm.option(COMMAND)}", hashlib.sha256(self.command.encode()).hexdigest()))
        if self.image and arm.placement != "host":
            digests.append(("image", self.image.digest))
        return tuple(digests)

    def registry(self, setting: EngineConfig) -> AbstractContextManager[Registry | None]:
        """Serve the scenario's registry; yields None if it has none. Raises KitError."""
        if not self.scenario.registry or self.shown is None:
            return nullcontext()
        return serve_registry(self.shown / self.folder / self.scenario.registry, setting)

    def fill(self, sandbox: Sandbox) -> Sandbox:
        """Put the inputs into the tree and give the tree to the scenario's user. Untimed. Raises RunError."""
        for prepared in self.inputs:
            if prepared.into == "tree":
                try:
                    sandbox.unpack(prepared.path)
                except RunError as error:
                    full = sandbox.backing.full()
                    raise RunError(full or error.message, MORE_ROOM if full else error.hint) from None
        if self.scenario.lower and not sandbox.layered:
            _do(sandbox, copy_of_data(self.scenario.lower, f"{sandbox.tree}/lower"))
        uid, gid = (int(part) for part in self.scenario.user.split(":"))
        if uid or gid:
            _do(sandbox, ["chown", "-hR", f"{uid}:{gid}", sandbox.tree])
        socket = sandbox.engine() if self.scenario.engine else ""
        return replace(sandbox, env={**sandbox.env, **dict(self.scenario.env)}, uid=uid, gid=gid, socket=socket)

    def prepare(self, sandbox: Sandbox, logfile: Path) -> str:
        """Run the untimed steps. Returns the failure or timeout, or ''."""
        for step in self.scenario.prepare:
            try:
                with logfile.open("ab") as output:
                    timing = sandbox.run(self.words(step, sandbox), step.cwd, output)
            except TimedOut as reason:
                return last_words(f"{step.name} {reason.message}", logfile)
            if not timing.ok:
                return _explain(step, timing, logfile, sandbox)
        return ""

    def rehearse(self, sandbox: Sandbox) -> None:
        """Put the arm into the state in which it is measured. Raises RunError, TimedOut."""
        sandbox.rehearse((self.words(step, sandbox), step.cwd) for step in self.scenario.phases)

    def read(
        self,
        step: Command,
        phase: Phase,
        sandbox: Sandbox,
        log: PhaseLog,
        clock: Callable[[float], float] | None = None,
    ) -> tuple[Phase, str]:
        """Return a finished phase with its own report, and why it failed, or ''. ``clock``: as for Report.on_clock,
        None if the phase was never frozen."""
        if phase.status != "ok":
            return phase, _explain(step, phase, log.logfile, sandbox)
        try:
            report = self._reported(step, sandbox, log, clock)
        except RunError as reason:
            return phase, f"{step.name}: {reason.message}"
        return replace(phase, reported=(*phase.reported, *report.figures), tasks=report.tasks), ""

    def _reported(
        self, step: Command, sandbox: Sandbox, log: PhaseLog, clock: Callable[[float], float] | None
    ) -> Report:
        """Return what the phase reports, then what the arm itself does. Raises RunError."""

        def own(report: Report) -> Report:
            return report.on_clock(clock) if clock else report.since(log.began)

        phase = arm = NOTHING
        if sandbox.report_format:  # of the last command: before the phase's reporter is one
            arm = own(parse_report(sandbox.report_format, sandbox.report())).summed()
        if step.report and sandbox.probe.ran:
            output = self._said(step.printer, sandbox) if step.printer else output_since(log.logfile, log.start)
            phase = own(parse_report(step.report, output, METRICS))
        return Report((*phase.figures, *arm.figures), phase.tasks)

    def _said(self, printer: Command, sandbox: Sandbox) -> str:
        """Return the output of a phase's reporter, which is outside the phase and its log. Raises RunError."""
        with sandbox.probe.aside():
            return _do(sandbox, self.words(printer, sandbox), printer.cwd)


def _do(sandbox: Sandbox, argv: Sequence[str], cwd: str = ".") -> str:
    """Run an untimed command in a sandbox, and return its output. Raises RunError with that output."""
    with tempfile.TemporaryFile() as output:
        succeeded = sandbox.run(argv, cwd, output).ok
        output.seek(0)
        text = output.read(MOST_REPORT).decode(errors="replace")
    if not succeeded:
        lines = text.strip().splitlines() or ["no output"]
        raise RunError(
            f"{shlex.join(argv)} failed: {lines[-1]}", MORE_ROOM if sandbox.backing.full() else "see its log"
        )
    return text


def _explain(step: Command, outcome: Timing | Phase, logfile: Path, sandbox: Sandbox) -> str:
    if outcome.signal is not None:
        how = f"was killed by signal {outcome.signal}"
    else:
        how = f"failed with exit status {outcome.exit_code}"
    full = sandbox.backing.full()
    return last_words(f"{step.name} {how}" + (f": {full}" if full else ""), logfile)


def last_words(what: str, logfile: Path) -> str:
    """Return the text ``what``, with the last lines of the workload's output."""
    return "\n".join([what, *(f"  | {line}" for line in last_lines(logfile, _LAST_LINES))])


def copy_of_data(source: str, target: str) -> list[str]:
    """Return the command line of a copy with blocks of its own. GNU's cp shares them if it can, since 9.0, also across
    bind mounts: the first write to each would then cost what it costs in no other file."""
    return ["sh", "-c", 'cp -a --reflink=never "$1" "$2" 2>/dev/null || cp -a "$1" "$2"', "sh", source, target]
