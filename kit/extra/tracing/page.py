"""Sections of a session's page: system calls, and CPU as flame graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.session.analyse import Analysis
from kit.extra.tracing.analysis.profiles import ProfileAnalysis, analyse_profiles
from kit.extra.tracing.report.calls import CallTable, call_notes, call_sentences, call_tables, whole_runs
from kit.extra.tracing.report.flame import plot_flame
from kit.extra.tracing.report.profile import ProfileTable, about, differs, tables
from kit.model.session import Session
from kit.report.page.section import PageSection, SectionView
from kit.report.plot import Picture


@dataclass(frozen=True)
class CallsView:
    """Calls of an arm at one point."""

    sentences: Sequence[str]  # the answer first
    tables: Sequence[CallTable]
    notes: Sequence[str]


@dataclass(frozen=True)
class FlameView:
    """A flame graph with its tables."""

    picture: Picture
    coloured: bool  # against a baseline
    line: str  # what differs, in words
    tables: Sequence[ProfileTable]


@dataclass(frozen=True)
class ProfileView:
    """Profiles at one point."""

    about: str
    flames: Sequence[FlameView]


def show_calls(session: Session, analysis: Analysis) -> SectionView | None:
    parts = [
        CallsView(list(call_sentences(cost)), call_tables(cost), list(call_notes(cost, analysis)))
        for cost in whole_runs(analysis)
    ]
    return SectionView("calls.html.j2", parts) if parts else None


def show_profiles(session: Session, analysis: Analysis) -> SectionView | None:
    parts = [
        _profile(profile, f"{session.id}-flame-{number}-")
        for number, profile in enumerate(analyse_profiles(session), 1)
    ]
    pictures = [flame.picture for part in parts for flame in part.flames]
    return SectionView("profiles.html.j2", parts, pictures) if parts else None


def _profile(profile: ProfileAnalysis, name: str) -> ProfileView:
    caption = about(profile)
    flames = [
        FlameView(plot_flame(flame, arm, "", f"{name}{number}", caption), False, "", ())
        for number, (arm, flame) in enumerate(profile.flames.items(), 1)
    ]
    for number, arm in enumerate(profile.arms, len(flames) + 1):
        picture = plot_flame(arm.flame, arm.arm, arm.baseline, f"{name}{number}", caption)
        flames.append(FlameView(picture, True, differs(arm, profile.point), tables(arm, profile.point)))
    return ProfileView(caption, flames)


SECTIONS = (
    PageSection(
        show_calls,
        "System calls are timed in traced runs, never in measured ones; groups of calls, user time and the rest add up "
        "to what processes worked or were held up longer: CPU of measured runs, waiting in traced ones.",
    ),
    PageSection(
        show_profiles,
        "Stacks are taken in traced runs, never in measured ones, of all CPUs by their clock, idle ones left out "
        "(flame graphs: Gregg 2016). Intervals are over rounds, simultaneous for all frames, or all functions.",
        "flame.js",
    ),
)
