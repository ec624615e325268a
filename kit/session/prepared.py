"""A prepared request: the one value that all later steps of a session use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kit.filesystem import Profile
from kit.model.plan import Plan
from kit.model.scenario import Scenario
from kit.model.session import Request


@dataclass(frozen=True)
class Prepared:
    """``request``: with all defaults filled in. ``scenarios``: by the sweep's points, all bound. ``profiles``:
    filesystems by name. ``load``: the background load's scenario, bound. ``usual``: the arm that others are ranked
    against, '' without one."""

    request: Request
    scenarios: Mapping[str, Scenario]
    plan: Plan
    profiles: Mapping[str, Profile]
    load: Scenario | None = None
    usual: str = ""

    @property
    def scenario(self) -> Scenario:
        """Return the scenario of the first point; all points have the same image and step names."""
        return next(iter(self.scenarios.values()))
