"""Background load: another scenario, niced, on the same filesystem, which runs as long as the measured one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from kit.arms.engines import Sandbox
from kit.core.deadline import run_deadline
from kit.core.errors import RunError
from kit.host.cgroup.cgroup import Cgroup
from kit.model.arm import Arm
from kit.session.measure.phase_log import cut_middle
from kit.session.measure.workload import Workload
from kit.session.setup.provision import Provision

NICENESS = 19


@dataclass
class Load:
    """``group``: the control group of all its runs, whose CPU is the load's. ``log``: the output of its commands."""

    workload: Workload
    provision: Provision
    group: Cgroup
    log: Path
    timeout: float | None = None  # seconds, for the preparations of each of its runs

    @property
    def digests(self) -> tuple[tuple[str, str], ...]:
        """Return the load's identity: samples that ran beside different loads are not comparable."""
        digests = self.workload.digests(Arm("bare"))
        return tuple((f"load's {name}", digest) for name, digest in digests if name != "probe")

    @contextmanager
    def beside(self, arm: Arm) -> Iterator[Beside]:
        """Run the load until the block ends; the block begins with the load's first command. Raises RunError if the
        load fails."""
        beside = Beside(self, arm)
        thread = threading.Thread(target=beside.loop, name="load", daemon=True)
        thread.start()
        try:
            beside.wait()
            yield beside
        finally:
            beside.stop(thread)
        if beside.failure:
            raise RunError(f"the load failed: {beside.failure}", f"see {self.log}")


@dataclass
class Beside:
    """The load beside one run."""

    load: Load
    arm: Arm
    turns: int = 0
    failure: str = ""
    _started: threading.Event = field(default_factory=threading.Event)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _began: float = 0.0
    _cpu: float = 0.0

    def loop(self) -> None:
        try:
            while not self._stopping.is_set():
                with self.load.provision.beside(self.arm) as sandbox:
                    self._turn(sandbox)
        except Exception as error:  # no other code sees an exception of a thread
            if not self._stopping.is_set():
                self.failure = str(error) or repr(error)
        finally:
            self._started.set()

    def _turn(self, sandbox: Sandbox) -> None:
        """Run the load's scenario once, from untimed preparations to the last phase."""
        workload = self.load.workload
        if sandbox.cgroup:
            for pid in sandbox.cgroup.pids():
                _renice(pid)
        sandbox = workload.fill(sandbox)
        deadline = run_deadline(time.monotonic(), self.load.timeout, None, 0.0)
        error = workload.prepare(replace(sandbox, deadline=deadline), self.load.log)
        self._started.set()
        for step in workload.scenario.phases if not error else ():
            with self.load.log.open("ab") as output:
                timing = sandbox.run(workload.words(step, sandbox), step.cwd, output)
            if not timing.ok:
                error = f"{step.name} ended with exit status {timing.exit_code}"
                break
        cut_middle(self.load.log)
        if error:
            raise RunError(error)
        self.turns += 1

    def wait(self) -> None:
        self._started.wait()
        self._began, self._cpu = time.monotonic(), self._used()

    def stop(self, thread: threading.Thread) -> None:
        self._began, self._cpu = time.monotonic() - self._began, self._used() - self._cpu
        self._stopping.set()
        while thread.is_alive():  # its next run may just be in preparation
            self.load.group.kill()
            thread.join(0.05)

    def _used(self) -> float:
        cpu = self.load.group.cpu()
        return cpu.user + cpu.sys if cpu else 0.0

    @property
    def text(self) -> str:
        """Return the load's facts for the sample."""
        share = self._cpu / self._began if self._began else 0.0
        return f"{self.load.workload.scenario.label}: {share:.2f} CPU s per s, {self.turns} runs ended"


def _renice(pid: int) -> None:
    """Set the niceness, in the load's autogroup too: with CONFIG_SCHED_AUTOGROUP it counts only within one session
    (sched(7))."""
    with suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(NICENESS))
