"""Stacks of profiled sessions in the collapsed form that speedscope, flamegraph.pl and inferno read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kit.analysis.traces.profiles import analyse_profiles, mean_stacks
from kit.core.sanitize import visible
from kit.model.profile import fold
from kit.model.session import Session
from kit.report.format import units
from kit.report.format.interval import amount_interval
from kit.report.format.sanitize import shown


def render_collapsed(sessions: Sequence[Session]) -> str:
    """Return a line for each stack with its microseconds of CPU per run; '' without stacks. The outermost frame is the
    arm: ``layer:overlay2: +0.71 s [+0.66, +0.76] of CPU against bare``."""
    return visible("".join(_lines(shown(session), len(sessions) > 1) for session in sessions))


def _lines(session: Session, several: bool) -> str:
    penalties = _penalties(session)
    lines = []
    for (arm, point), stacks in mean_stacks(session).items():
        name = f"{arm}{units.at(point)}{penalties.get((arm, point), '')}"
        root = f"{session.title}, {session.id}: {name}" if several else name
        lines.append(fold({(root, *stack): seconds for stack, seconds in stacks.items()}))
    return "".join(lines)


def _penalties(session: Session) -> Mapping[tuple[str, str], str]:
    return {
        (arm.arm, analysis.point): f": {amount_interval(arm.whole.difference)} of CPU against {arm.baseline}"
        for analysis in analyse_profiles(session)
        for arm in analysis.arms
    }
