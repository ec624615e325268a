"""The message about a night whose state changed: what changed, the night's summary, and the plot of a limit."""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.errors import MachineError
from kit.core.sanitize import printable
from kit.extra.history.analysis.changepoint import CONFIRM, ChangeHistory
from kit.extra.history.analysis.night import Night
from kit.extra.history.analysis.state_change import StateChange
from kit.extra.history.message import Attachment, Message
from kit.extra.history.report.night import render_night_text
from kit.extra.history.report.plot import plot_track
from kit.report.format import units
from kit.report.format.sanitize import shown
from kit.report.plot import Picture
from kit.report.plot.picture import to_png


def make_message(night: Night, changes: Sequence[StateChange]) -> Message:
    """Return the message. Its plot is that of the first limit that changed; PNG where that can be drawn here, else
    SVG."""
    title, _, summary = render_night_text(night).partition("\n\n")
    text = "\n".join(_line(change) for change in changes)
    pictures = map(_plot, changes)
    picture = next((drawing for drawing in pictures if drawing), None)
    return Message(
        title,
        f"{text}\n\n{summary}" if text else summary,
        any(change.worse for change in changes),
        _file(picture) if picture else None,
    )


def _line(change: StateChange) -> str:
    subject = f"{change.task}: {change.subject}{units.at(change.point)}" if change.subject else change.task
    return printable(f"{subject}: {change.before} → {change.after}")


def _plot(change: StateChange) -> Picture | None:
    finding = change.finding
    if finding is None or finding.series is None:
        return None
    track = ChangeHistory(shown(finding.series), shown(finding.changes), CONFIRM)
    return plot_track(track, finding.threshold.limit, f"{change.task}-{change.subject}")


def _file(picture: Picture) -> Attachment:
    svg = picture.file()
    try:
        return Attachment(f"{picture.identifier}.png", to_png(svg), "image/png")
    except MachineError:
        return Attachment(f"{picture.identifier}.svg", svg.encode(), "image/svg+xml")
