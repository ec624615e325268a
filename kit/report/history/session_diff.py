"""Two sessions side by side, as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from kit.analysis.history.history import DifferingVersion
from kit.analysis.history.session_diff import PenaltyChange, SessionDiff
from kit.analysis.runs.compare import LESS, MORE, NOT_DETECTED
from kit.model.session import Session
from kit.report.data.structured import session_facts
from kit.report.format import units
from kit.report.format.interval import percent_interval
from kit.report.format.sanitize import shown
from kit.report.format.table import GITHUB, render_table
from kit.report.format.wrap import wrap
from kit.report.history.history import interval_of

_HEADERS = ("arm / baseline", "A", "B", "B / A", "arm's own time", "baseline's", "verdict")
_WORDS = {MORE: "larger in B", LESS: "smaller in B", NOT_DETECTED: "not significant"}


def render_between(before: Session, after: Session, found: SessionDiff, tablefmt: str = "simple") -> str:
    """Return each arm's penalty in both sessions, the change with its interval, and conditions that differ."""
    before, after, found = shown(before), shown(after), shown(found)
    head = f"{_name('A', before)}\n{_name('B', after)}"
    parts = [head if tablefmt == "simple" else head.replace("\n", "\n\n"), _table(found, tablefmt)]
    lines = _lines(found)
    parts.append("\n".join(wrap(line) for line in lines))
    return "\n\n".join(parts) + "\n"


def render_between_markdown(before: Session, after: Session, found: SessionDiff) -> str:
    return render_between(before, after, found, GITHUB)


def render_between_json(before: Session, after: Session, found: SessionDiff) -> str:
    """Return both sessions without their samples, each penalty in both, and conditions that differ."""
    before, after, found = shown(before), shown(after), shown(found)
    document = {"schema": 1, "before": session_facts(before), "after": session_facts(after), **asdict(found)}
    return json.dumps(document, indent=1) + "\n"


def between_rows(found: SessionDiff) -> tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]:
    """Return headings, rows and sentences, for a page."""
    return _HEADERS, [_row(item) for item in found.moved], _lines(found)


def _lines(found: SessionDiff) -> list[str]:
    lines = []
    for which, arms in (("A", found.only_before), ("B", found.only_after)):
        if arms:
            lines.append(f"only in {which}: {', '.join(arms)}")
    lines += [f"differs: {item}" for item in found.differs]
    if all(isinstance(item, DifferingVersion) for item in found.differs):
        lines.append("no recorded fact of machine or settings differs")
    lines.append(
        "note: a penalty is a ratio within its session, so the speed of the machine cancels; in an arm's own time it "
        "does not. Intervals cover the noise within the sessions; kit history shows how much sessions differ"
    )
    return lines


def _name(which: str, session: Session) -> str:
    when = f"{units.moment(session.created)} UTC"
    guest = f", IN A GUEST: {session.guest}" if session.guest else ""
    return f"{which}: {session.title}, session {session.id}, {when}{guest}"


def _table(found: SessionDiff, tablefmt: str) -> str:
    if not found.moved:
        return "no arm was compared with the same baseline in both sessions"
    return render_table([_row(item) for item in found.moved], _HEADERS, tablefmt)


def _verdict(item: PenaltyChange) -> str:
    word = _WORDS.get(item.verdict, "no interval")
    if item.verdict_all == item.verdict:
        return word
    return f"{word}, but not significant after correcting for {item.family} comparisons"


def _row(item: PenaltyChange) -> list[str]:
    one, two = item.before, item.after
    return [
        f"{one.arm} / {one.baseline}" + (f" [{one.point}]" if one.point else ""),
        percent_interval(one.ratio, one.low, one.high),
        percent_interval(two.ratio, two.low, two.high),
        *(interval_of(found) for found in (item.change, item.own, item.base)),
        f"not compared: {', '.join(item.unlike)} differs" if item.unlike else _verdict(item),
    ]
