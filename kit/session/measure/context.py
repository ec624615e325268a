"""The context of a session's runs, and the session's requirements of its surroundings."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kit.arms.engines import EngineConfig, Sandbox
from kit.arms.filesystem import Backing
from kit.core.paths import Paths
from kit.host.cgroup.cgroup import Cgroup
from kit.model.arm import Arm
from kit.model.event import EventSink, PhaseStarted
from kit.model.plan import Plan, PlanStep
from kit.session.measure.background import Load
from kit.session.measure.tracer import Tracer
from kit.session.measure.workload import Workload


class ArmProvider(Protocol):
    """The interface that the session needs of a provision."""

    def sandbox(self, arm: Arm, copies: int = 1) -> AbstractContextManager[Sandbox]: ...

    def fresh_sandbox(self, arm: Arm, copies: int = 1) -> AbstractContextManager[Sandbox]: ...

    def read_all(self) -> None: ...

    def read_anew(self, order: random.Random) -> None: ...

    def sync(self, but: Backing | None = None) -> None: ...


@dataclass(frozen=True)
class MachineLease:
    """A machine held for one session."""

    setting: EngineConfig
    paths: Paths

    @property
    def scratch(self) -> Path:
        """Return the session's directory for files that may be large: /run and /tmp lie in memory on many machines."""
        return self.paths.state / self.setting.session


@dataclass(frozen=True)
class RunContext:
    """The common context of all runs of a session. ``workloads``: one for each point of a sweep."""

    plan: Plan
    workloads: Mapping[str, Workload]
    places: ArmProvider
    events: EventSink
    lease: MachineLease
    load: Load | None = None
    tracers: tuple[Tracer, ...] = ()  # of traced runs

    def show(self, step: PlanStep, phase: str) -> None:
        self.events.take(PhaseStarted(step, phase))

    @property
    def group(self) -> Cgroup:
        """Return the control group of everything that the session starts. Without root no group with that name
        exists."""
        return Cgroup.named(self.lease.setting.cgroup)
