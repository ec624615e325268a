"""Two sessions side by side, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from kit.analysis.compare import LESS, MORE, NOT_DETECTED
from kit.analysis.two_sessions import Between, Moved
from kit.model.session import Session
from kit.report import units
from kit.report.history import interval_of
from kit.report.interval import percent_interval
from kit.report.shown import shown
from kit.report.wrap import wrap

_HEADERS = ("arm / baseline", "A", "B", "B / A", "arm's own time", "baseline's", "verdict")
_WORDS = {MORE: "larger in B", LESS: "smaller in B", NOT_DETECTED: "not significant"}


def render_between(before: Session, after: Session, found: Between, tablefmt: str = "simple") -> str:
    """Each arm's penalty in both sessions, the change with its interval, and what differs between the sessions."""
    before, after, found = shown(before), shown(after), shown(found)
    head = f"{_name('A', before)}\n{_name('B', after)}"
    parts = [head if tablefmt == "simple" else head.replace("\n", "\n\n"), _table(found, tablefmt)]
    lines = _lines(found)
    parts.append("\n".join(wrap(line) for line in lines))
    return "\n\n".join(parts) + "\n"


def render_between_markdown(before: Session, after: Session, found: Between) -> str:
    return render_between(before, after, found, "github")


def between_rows(found: Between) -> tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]:
    """Headings, rows and sentences, for a page."""
    return _HEADERS, [_row(item) for item in found.moved], _lines(found)


def _lines(found: Between) -> list[str]:
    lines = []
    for which, arms in (("A", found.only_before), ("B", found.only_after)):
        if arms:
            lines.append(f"only in {which}: {', '.join(arms)}")
    lines += [f"differs: {item}" for item in found.differs]
    if not found.differs:
        lines.append("no recorded fact of machine or settings differs")
    lines.append(
        "note: a penalty is taken within its session, so the machine's state cancels; own times are not: they move "
        "with the machine. The intervals hold the noise within the sessions; how far sessions themselves scatter (a "
        "new filesystem, other places in memory) is what kit history shows"
    )
    return lines


def _name(which: str, session: Session) -> str:
    when = f"{units.moment(session.created)} UTC"
    guest = f", IN A GUEST: {session.guest}" if session.guest else ""
    return f"{which}: {session.title}, session {session.id}, {when}{guest}"


def _table(found: Between, tablefmt: str) -> str:
    if not found.moved:
        return "no arm was compared with the same baseline in both sessions"
    return tabulate([_row(item) for item in found.moved], _HEADERS, tablefmt=tablefmt, disable_numparse=True)


def _verdict(item: Moved) -> str:
    word = _WORDS.get(item.verdict, "no interval")
    if item.verdict_all == item.verdict:
        return word
    return f"{word}, but not significant after correcting for {item.family} comparisons"


def _row(item: Moved) -> list[str]:
    one, two = item.before, item.after
    return [
        f"{one.arm} / {one.baseline}" + (f" [{one.point}]" if one.point else ""),
        percent_interval(one.ratio, one.low, one.high),
        percent_interval(two.ratio, two.low, two.high),
        *(interval_of(found) for found in (item.change, item.own, item.base)),
        f"not compared: {', '.join(item.unlike)} differs" if item.unlike else _verdict(item),
    ]
