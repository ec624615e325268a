"""A penalty over sessions, each with its interval, the levels between change points, and the limit where one is set."""

from __future__ import annotations

from kit.analysis.session.entry import Entry
from kit.extra.history.analysis.changepoint import ChangeHistory
from kit.report.format import units
from kit.report.format.interval import percent_interval
from kit.report.plot.picture import Picture, circle, line, text
from kit.report.plot.scale import Scale, linear_ticks

_LEFT, _WIDTH, _TOP, _HEIGHT, _RIGHT = 70.0, 720.0, 24.0, 180.0, 40.0


def plot_track(track: ChangeHistory, limit: float | None = None, name: str = "history") -> Picture:
    """Return the plot. ``limit`` is a ratio. Sessions are evenly spaced in their order, whatever the time between
    them."""
    entries = track.series.entries
    low, high = _span(entries, limit)
    y = Scale(low, high, _TOP + _HEIGHT, _TOP)
    x = Scale(-0.5, len(entries) - 0.5, _LEFT, _LEFT + _WIDTH)
    parts = []
    for tick in linear_ticks(low, high):
        parts.append(line(_LEFT, y.at(tick), _LEFT + _WIDTH, y.at(tick), "grid"))
        parts.append(
            text(_LEFT - 8, y.at(tick) + 4, units.percent(tick) if abs(tick - 1) > 1e-9 else "0", "end", "quiet")
        )
    if low <= 1 <= high:
        parts.append(line(_LEFT, y.at(1), _LEFT + _WIDTH, y.at(1), "zero"))
    if limit is not None:
        parts.append(line(_LEFT, y.at(limit), _LEFT + _WIDTH, y.at(limit), "limit"))
        parts.append(text(_LEFT + _WIDTH, y.at(limit) - 5, f"limit {units.percent(limit)}", "end", "quiet"))
    for i, entry in enumerate(entries):
        parts += _session(entry, x.at(i), y)
    parts += _levels(track, x, y)
    step = max(1, len(entries) // 8)
    for i in range(0, len(entries), step):
        day = units.moment(entries[i].created)[5:10]
        parts.append(text(x.at(i), _TOP + _HEIGHT + 20, day, "middle", "quiet"))
    comparison = entries[-1].outcome.comparison
    first, last = (units.moment(entry.created)[:10] for entry in (entries[0], entries[-1]))
    changes = "; ".join(
        f"{'change' if change.confirmed else 'possible change'} at {entries[change.index].session} from "
        f"{units.percent(change.before)} to {units.percent(change.after)}"
        for change in track.changes
    )
    newest = percent_interval(comparison.estimate)
    description = f"{len(entries)} sessions from {first} to {last}, the newest {newest}; {changes or 'no change point'}"
    title = f"{units.against(comparison)}: {comparison.metric} of {comparison.phase} over sessions"
    return Picture(name, title, description, _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + 34, "".join(parts))


def _span(entries: tuple[Entry, ...], limit: float | None) -> tuple[float, float]:
    """Return the range of all ratios, and of their intervals unless those dwarf the ratios."""
    ratios = [entry.ratio for entry in entries] + ([limit] if limit is not None else []) + [1.0]
    reach = max(max(ratios) - min(ratios), 0.02)
    comparisons = [entry.outcome.comparison for entry in entries]
    low = min(
        [
            *ratios,
            *(max(comparison.low, min(ratios) - reach) for comparison in comparisons if comparison.low is not None),
        ]
    )
    high = max(
        [
            *ratios,
            *(min(comparison.high, max(ratios) + reach) for comparison in comparisons if comparison.high is not None),
        ]
    )
    return max(low - 0.05 * reach, 0.0), high + 0.05 * reach


def _session(entry: Entry, x: float, y: Scale) -> list[str]:
    comparison = entry.outcome.comparison
    parts = []
    if comparison.low is not None and comparison.high is not None:
        parts.append(line(x, y.at(y.clamp(comparison.low)), x, y.at(y.clamp(comparison.high)), "axis"))
    hint = f"{entry.session}: {percent_interval(comparison.estimate)}"
    parts.append(circle(x, y.at(entry.ratio), 4, "dot", hint))
    return parts


def _levels(track: ChangeHistory, x: Scale, y: Scale) -> list[str]:
    count = len(track.series.entries)
    edges = [0, *(change.index for change in track.changes), count]
    levels = [track.changes[0].before, *(change.after for change in track.changes)] if track.changes else []
    parts = [
        line(x.at(edges[i] - 0.5), y.at(level), x.at(edges[i + 1] - 0.5), y.at(level), "level")
        for i, level in enumerate(levels)
    ]
    for change in track.changes:
        at = x.at(change.index - 0.5)
        parts.append(line(at, _TOP, at, _TOP + _HEIGHT, "change"))
        words = ("▲ " if change.up else "▼ ") + units.percent(change.after / change.before)
        parts.append(text(at, _TOP - 6, words if change.confirmed else f"{words}?", "middle", "quiet"))
    return parts
