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
    said = "\n".join(_line(item) for item in changes)
    pictures = map(_plot, changes)
    picture = next((item for item in pictures if item), None)
    return Message(
        title,
        f"{said}\n\n{summary}" if said else summary,
        any(item.worse for item in changes),
        _file(picture) if picture else None,
    )


def _line(item: StateChange) -> str:
    subject = f"{item.task}: {item.subject}{units.at(item.point)}" if item.subject else item.task
    return printable(f"{subject}: {item.before} → {item.after}")


def _plot(item: StateChange) -> Picture | None:
    finding = item.finding
    if finding is None or finding.series is None:
        return None
    track = ChangeHistory(shown(finding.series), shown(finding.changes), CONFIRM)
    return plot_track(track, finding.threshold.limit, f"{item.task}-{item.subject}")


def _file(picture: Picture) -> Attachment:
    svg = picture.file()
    try:
        return Attachment(f"{picture.identifier}.png", to_png(svg), "image/png")
    except MachineError:
        return Attachment(f"{picture.identifier}.svg", svg.encode(), "image/svg+xml")
