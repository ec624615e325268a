"""Two sessions side by side, as a table."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from kit.analysis.session.entry import SOURCES, DifferingVersion
from kit.analysis.session.session_diff import PenaltyChange, SessionDiff
from kit.analysis.stats.estimate import LESS, MORE, NOT_SIGNIFICANT
from kit.model.sample import is_input
from kit.model.session import Session
from kit.report.data.structured import session_facts
from kit.report.format import units
from kit.report.format.interval import interval_of, percent_interval
from kit.report.format.sanitize import shown
from kit.report.format.table import GITHUB, render_table
from kit.report.format.wrap import wrap, wrap_command

_HEADERS = ("arm / baseline", "A", "B", "B / A", "arm's own time", "baseline's", "verdict")
_CAPTION = (
    "A and B are the real time of the whole run against the baseline's, as in limits and kit history. It ends before "
    "the data are on disk. Intervals are individual, 95 %."
)
_WORDS = {MORE: "larger in B", LESS: "smaller in B", NOT_SIGNIFICANT: "not significant"}


def render_between(before: Session, after: Session, diff: SessionDiff, tablefmt: str = "simple") -> str:
    """Return each arm's penalty in both sessions, the change with its interval, and conditions that differ."""
    before, after, diff = shown(before), shown(after), shown(diff)
    head = f"{_name('A', before)}\n{_name('B', after)}"
    parts = [head if tablefmt == "simple" else head.replace("\n", "\n\n"), _table(diff, tablefmt)]
    lines = _lines(before, after, diff)
    parts.append("\n".join((wrap_command if line.startswith("kit ") else wrap)(line) for line in lines))
    return "\n\n".join(parts) + "\n"


def render_between_markdown(before: Session, after: Session, diff: SessionDiff) -> str:
    return render_between(before, after, diff, GITHUB)


def render_between_json(before: Session, after: Session, diff: SessionDiff) -> str:
    """Return both sessions without their samples, each penalty in both, and conditions that differ."""
    before, after, diff = shown(before), shown(after), shown(diff)
    document = {"schema": 1, "before": session_facts(before), "after": session_facts(after), **asdict(diff)}
    return json.dumps(document, indent=1) + "\n"


def between_rows(
    before: Session, after: Session, diff: SessionDiff
) -> tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]:
    """Return headings, rows and sentences, for a page."""
    before, after = shown(before), shown(after)
    return _HEADERS, [_row(change) for change in diff.moved], _lines(before, after, diff)


def _lines(before: Session, after: Session, diff: SessionDiff) -> list[str]:
    lines = [_CAPTION] if diff.moved else []
    lines += _across(before, after, diff)
    for which, arms in (("A", diff.only_before), ("B", diff.only_after)):
        if arms:
            lines.append(f"only in {which}: {', '.join(arms)}")
    lines += [f"differs: {difference}" for difference in diff.differs]
    if all(isinstance(difference, DifferingVersion) for difference in diff.differs):
        lines.append("no recorded fact of machine or settings differs")
    lines.append(
        "note: a penalty is a ratio within its session, so the speed of the machine cancels; in an arm's own time it "
        "does not. Intervals cover the noise within the sessions; kit history shows how much sessions differ"
    )
    return lines


def _across(before: Session, after: Session, diff: SessionDiff) -> Iterator[str]:
    """Say how to look at penalties of different inputs, which one change can't describe."""
    changed = {change.unlike: change.before.arm for change in reversed(diff.moved) if change.unlike}
    for names, arm in changed.items():
        yield f"The sessions built different inputs ({', '.join(names)}), so B / A is not the change of a penalty."
        if before.title == after.title:
            ignored = dict.fromkeys(SOURCES if is_input(name) else name for name in names)
            yield "Each penalty by itself counts. Their history, whatever was built:"
            options = [word for name in ignored for word in ("--ignore", name)]
            yield shlex.join(["kit", "history", after.title, arm, *options])


def _name(which: str, session: Session) -> str:
    when = f"{units.moment(session.created)} UTC"
    guest = f", IN A GUEST: {session.guest}" if session.guest else ""
    return f"{which}: {session.title}, session {session.id}, {when}{guest}"


def _table(diff: SessionDiff, tablefmt: str) -> str:
    if not diff.moved:
        return "no arm was compared with the same baseline in both sessions"
    return render_table([_row(change) for change in diff.moved], _HEADERS, tablefmt)


def _verdict(change: PenaltyChange) -> str:
    word = _WORDS.get(change.verdict, "no interval")
    if change.verdict_all == change.verdict:
        return word
    return f"{word}, but not significant after correcting for {change.family} comparisons"


def _row(change: PenaltyChange) -> list[str]:
    before, after = change.before, change.after
    return [
        f"{before.arm} / {before.baseline}" + (f" [{before.point}]" if before.point else ""),
        percent_interval(before.estimate),
        percent_interval(after.estimate),
        *(interval_of(interval) for interval in (change.change, change.own, change.base)),
        f"not compared: {', '.join(change.unlike)} differs" if change.unlike else _verdict(change),
    ]
