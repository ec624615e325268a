"""What the steps of a session share: the prepared request, and the context of its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kit.arms.filesystem import Profile
from kit.core.paths import Paths
from kit.host.machine import Host
from kit.model.default import DEFAULT_IMAGE
from kit.model.event import EventSink
from kit.model.fact import Fact
from kit.model.plan import Plan
from kit.model.scenario import Scenario
from kit.model.session import Request


@dataclass(frozen=True)
class Prepared:
    """``request``: with all defaults filled in. ``scenarios``: by the sweep's points, all bound. ``profiles``:
    filesystems by name. ``load``: the background load's scenario, bound. ``default_reference``: the arm that others
    are ranked against unless another is named, '' without one. ``devices``: the identities of the request's devices."""

    request: Request
    scenarios: Mapping[str, Scenario]
    plan: Plan
    profiles: Mapping[str, Profile]
    load: Scenario | None = None
    default_reference: str = ""
    devices: tuple[Fact, ...] = ()

    @property
    def scenario(self) -> Scenario:
        """Return the scenario of the first point; all points have the same image and step names."""
        return next(iter(self.scenarios.values()))

    @property
    def image(self) -> str:
        """Return the name of the image: the requested one, else the scenario's own; '' if every arm is the host."""
        requested = self.request.rootfs or self.request.image
        hosts = all(arm.placement == "host" for arm in self.plan.arms)
        return requested or ("" if hosts else self.scenario.image or DEFAULT_IMAGE)


@dataclass(frozen=True)
class StartOptions:
    """The user's options for one start of a session, which are not stored. ``wait``: wait for the end of another
    session instead of an error. ``idle``: wait for a quiet machine, at most this number of seconds; None: do not wait.
    ``wipe``: devices that may be overwritten. ``reference``: the arm of the ranking; '': the default one.
    ``keep_order``: an automatic run order is that of the series' last session."""

    wait: bool = False
    idle: float | None = None
    wipe: tuple[Path, ...] = ()
    reference: str = ""
    keep_order: bool = False


@dataclass(frozen=True)
class SessionContext:
    """The common part of new and resumed sessions, on this machine or in a guest. ``host``: as the workload will find
    it."""

    prepared: Prepared
    host: Host
    paths: Paths
    events: EventSink
    start: StartOptions = StartOptions()
