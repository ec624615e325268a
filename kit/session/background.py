"""Background load: another scenario, niced, on the same filesystem, for as long as the measured one runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from kit.core.errors import RunError
from kit.core.limit import run_deadline
from kit.engines import Place
from kit.host.cgroup import Cgroup
from kit.model.arm import Arm
from kit.session.provision import Provision
from kit.session.runlog import cut_middle
from kit.session.workload import Workload

NICENESS = 19


@dataclass
class Load:
    """``group``: the control group of all its runs, whose CPU is the load's. ``log``: what its commands print."""

    workload: Workload
    provision: Provision
    group: Cgroup
    log: Path
    timeout: float | None = None  # seconds, for the preparations of each of its runs

    @property
    def digests(self) -> tuple[tuple[str, str], ...]:
        """Samples that ran beside different loads are not compared."""
        found = self.workload.digests(Arm("bare"))
        return tuple((f"load's {name}", digest) for name, digest in found if name != "probe")

    @contextmanager
    def beside(self, arm: Arm) -> Iterator[Beside]:
        """Runs until the block ends; begins it when the first command of the load runs. Raises RunError if it fails."""
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
                with self.load.provision.beside(self.arm) as place:
                    self._turn(place)
        except Exception as error:  # nobody else hears of what ends a thread
            if not self._stopping.is_set():
                self.failure = str(error) or repr(error)
        finally:
            self._started.set()

    def _turn(self, place: Place) -> None:
        """One run of its scenario, from untimed preparations to the last phase."""
        workload = self.load.workload
        if place.cgroup:
            for pid in place.cgroup.pids():
                _renice(pid)
        place = workload.fill(place)
        deadline = run_deadline(time.monotonic(), self.load.timeout, None, 0.0)
        error = workload.prepare(replace(place, deadline=deadline), self.load.log)
        self._started.set()
        for step in workload.scenario.phases if not error else ():
            with self.load.log.open("ab") as output:
                timing = place.run(workload.words(step, place), step.cwd, output)
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
        while thread.is_alive():  # it may just be placing its next run
            self.load.group.kill()
            thread.join(0.05)

    def _used(self) -> float:
        cpu = self.load.group.cpu()
        return cpu.user + cpu.sys if cpu else 0.0

    @property
    def text(self) -> str:
        """For the record of the sample."""
        share = self._cpu / self._began if self._began else 0.0
        return f"{self.load.workload.scenario.label}: {share:.2f} CPU s per s, {self.turns} runs ended"


def _renice(pid: int) -> None:
    """In its autogroup too: with CONFIG_SCHED_AUTOGROUP a niceness counts only within one session (sched(7))."""
    with suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(NICENESS))
