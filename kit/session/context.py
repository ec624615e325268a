"""What the runs of a session are given, and what the session needs of its surroundings."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from kit.core.paths import Paths
from kit.engines import Place, Setting
from kit.filesystem import Backing
from kit.host.cgroup import Cgroup
from kit.model.arm import Arm
from kit.model.plan import Plan, PlanStep
from kit.model.sample import Sample
from kit.model.session import Session
from kit.session.background import Load
from kit.session.workload import Workload
from kit.trace.tracer import Tracer


class Observer(Protocol):
    """Is told what goes on; fronts show it."""

    def tell(self, text: str) -> None:
        """A sentence for the user."""

    def began(self, session: Session) -> None:
        """A session has begun or goes on, with the samples that it has."""

    def planned(self, steps: int, done: int) -> None:
        """So many runs at least, so many done by an earlier start."""

    def extended(self, steps: int, reason: str) -> None:
        """So many runs more, and why."""

    def running(self, step: PlanStep, phase: str) -> None:
        """A run has come to this phase."""

    def finished(self, step: PlanStep, sample: Sample) -> None:
        """A run is over and stored."""


class Keeper(Protocol):
    """What the session needs of a store."""

    def update(self, session: Session) -> None: ...

    def add_sample(self, session_id: str, *samples: Sample) -> None:
        """All of them, or none: a round is whole or it is not there."""

    def set_flags(self, session_id: str, arm: str, point: str, block: int, flags: str) -> None: ...


class Places(Protocol):
    """What the session needs of a provision."""

    def place(self, arm: Arm) -> AbstractContextManager[Place]: ...

    def fresh_place(self, arm: Arm) -> AbstractContextManager[Place]: ...

    def read_all(self) -> None: ...

    def read_anew(self, order: random.Random) -> None: ...

    def sync(self, but: Backing | None = None) -> None: ...


@dataclass(frozen=True)
class Bench:
    """A machine held for one session."""

    setting: Setting
    paths: Paths


@dataclass(frozen=True)
class RunContext:
    """What all runs of a session have in common. ``workloads``: one for each point of a sweep."""

    plan: Plan
    workloads: Mapping[str, Workload]
    places: Places
    store: Keeper
    bench: Bench
    observer: Observer
    load: Load | None = None
    tracers: tuple[Tracer, ...] = ()  # of traced runs

    @property
    def group(self) -> Cgroup:
        """The control group of all that the session starts; without root there is none of that name."""
        return Cgroup.named(self.bench.setting.cgroup)
