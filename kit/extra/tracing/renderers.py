"""Outputs of traced runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.report.renderer import SESSION, SESSIONS, Renderer

if TYPE_CHECKING:
    from kit.analysis.session.analyse import Analysis
    from kit.model.session import Session


def has_calls(session: Session, analysis: Analysis) -> bool:
    return bool(analysis.extra_parts["calls"])


def has_profiles(session: Session, analysis: Analysis) -> bool:
    return any(phase.profiles for sample in session.samples for phase in sample.phases)


OF_SESSION = (
    Renderer(
        "calls", SESSION, "kit.extra.tracing.report.calls:render_calls",
        "what each system call costs, from traced runs", after="explain", flag=True, suits=has_calls,
    ),
    Renderer(
        "profile", SESSION, "kit.extra.tracing.report.profile:render_profile",
        "what each function costs, from traced runs", after="calls", flag=True, suits=has_profiles,
    ),
)  # fmt: skip
OF_SESSIONS = (
    Renderer(
        "collapsed", SESSIONS, "kit.extra.tracing.report.collapsed:render_collapsed",
        "stacks for flame graph programs", "txt",
    ),
)  # fmt: skip
