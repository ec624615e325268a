"""A timer whose commands run as steps of an image build. It runs the build tool on the host and times the tool."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from kit.arms.engines.sandbox import Invocation
from kit.arms.probe import Probe, Timing
from kit.arms.probe.client import COUNTS, parse_answer
from kit.core.deadline import Deadline
from kit.core.errors import RunError
from kit.extra.builds.dockerfile import Chain
from kit.extra.builds.output import BuildOutput
from kit.extra.builds.tool import BuildFiles, BuildTool
from kit.host.safe_fs import new_file

#: The figures of a command's process tree.
_OF_TREE = ("user", "sys", "max_rss", *COUNTS)


@dataclass(frozen=True)
class BuildDirs:
    """The directories of a build."""

    files: Path  # of Dockerfiles
    context: Path  # the sources
    empty: Path  # the context of later steps, which copy nothing


class BuildProbe(Probe):
    """``chain``: the images so far; a command that ends adds one. ``name``: of all images of this sandbox."""

    def __init__(self, probe: Probe, tool: BuildTool, dirs: BuildDirs, chain: Chain, name: str) -> None:
        super().__init__(probe.connection)
        self.images: list[str] = []
        self._tool = tool
        self._dirs = dirs
        self._chain = self._base = chain
        self._name = name
        self._steps: list[Invocation] = []
        self._rehearsed: Sequence[Invocation] = ()
        self._changed = False
        self._output: BuildOutput | None = None

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
        """Request the build of one more step."""
        step = Invocation(tuple(argv), cwd, dict(env), uid, gid)
        files = self._files(step)
        self._output = reader = BuildOutput(output, self._tool.printed)
        with open(reader.pipe, "wb", closefd=False) as pipe:
            super().start(self._tool.argv(files), cwd="/", env=self._tool.env, output=pipe)
        reader.begin()
        self._steps.append(step)
        self.images.append(files.image)

    def _files(self, step: Invocation) -> BuildFiles:
        number = len(self.images) + 1
        path = self._dirs.files / f"Dockerfile.{number}"
        path.write_text(self._chain.dockerfile(step))
        context = self._dirs.empty if self._chain.copied else self._dirs.context
        return BuildFiles(path, context, f"{self._name}:{number}", self._chain.image)

    def timing(self, alive: Callable[[], str] = lambda: "") -> Timing:
        """Return the command's timing, with the real time of the build; no CPU and memory of a cached step. A failure
        of the build tool itself is in the command's output. Raises RunError also if the build did not use the cache as
        its arm says."""
        whole = super().timing(alive)
        assert self._output
        self._output.end(failed=not whole.ok)
        step, answer = self._steps[-1], self._output.answer
        if not whole.ok:
            return whole
        self._chain = self._chain.after(step, self.images[-1])
        cached = step in self._rehearsed and not self._changed
        if cached and answer is not None:
            raise RunError(f"step {step.argv[0]} of a rebuild was not in the build cache", "use the arm without +cache")
        if cached:  # nothing ran but the build tool, which is in the figures of the control group
            return replace(whole, **dict.fromkeys(_OF_TREE, 0))
        if answer is None:
            reason = f"step {step.argv[0]} has no answer of the timer: it was cached, or its output was cut"
            # kit.arms.engines.docker_server says why there is a limit.
            raise RunError(reason, "see the log of the run; where Docker before 23 cut it at 1 MB, use docker@26.1")
        return replace(parse_answer(answer, step.argv[0], step.cwd), real=whole.real, ended=whole.ended)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Run commands that the next step of the chain does not contain."""
        chain, steps, output = self._chain, list(self._steps), self._output
        try:
            yield
        finally:
            self._chain, self._steps, self._output = chain, steps, output

    @property
    def ran(self) -> bool:
        """Return whether the last command ran. A cached step did not."""
        return self._output is not None and self._output.answer is not None

    def end(self) -> None:
        """End the build tool, and with it its output."""
        super().end()
        if self._output:
            with suppress(RunError):  # what keeps it open is ended with the arm's control group
                self._output.end()

    def report(self) -> str:
        """Return the build tool's own lines about the last step, and the size of its image."""
        if self._output is None:
            return ""
        size = f"{self._tool.size(self.images[-1])}{' compressed' if self._tool.compressed else ''}"
        return "\n".join([*self._output.lines, f"kit-build size {size}"])

    def rehearse(
        self,
        commands: Sequence[Invocation],
        deadline: Deadline | None,
        alive: Callable[[], str],
        change: Path | None,
    ) -> None:
        """Build these steps, then return to the present state: all of them are in the cache. ``change``: a new file of
        the build context, made then; the steps so far are built again. Raises RunError, TimedOut."""
        before, chain = list(self._steps), self._chain
        for step in commands:
            self._build(step, deadline, alive)
        if change is None:
            self._steps, self._chain = before, chain
        else:
            new_file(change.parent, change.name, f"{self._name}\n".encode())
            self._steps, self._chain = [], self._base
            for step in before:
                self._build(step, deadline, alive)
        self._rehearsed, self._changed = commands, change is not None

    def _build(self, step: Invocation, deadline: Deadline | None, alive: Callable[[], str]) -> None:
        """Raises RunError, TimedOut."""
        with tempfile.TemporaryFile() as output:
            timing = self.run(
                step.argv, cwd=step.cwd, env=step.env, output=output, uid=step.uid, gid=step.gid, alive=alive,
                deadline=deadline,
            )  # fmt: skip
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
        if not timing.ok:
            last = f": {lines[-1]}" if lines else ""
            raise RunError(f"the build that fills the cache failed at {step.argv[0]}{last}", "use an empty cache")
