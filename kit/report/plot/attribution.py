"""Where each container's penalty comes from: the steps of the ladder as stacked bars, the whole with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from kit.analysis.session.ladder import FLUSH, READ, RUNTIME, WRITE, Ladder, LadderStep
from kit.report.format import units
from kit.report.format.interval import share_interval
from kit.report.plot.picture import CHARACTER, Picture, circle, label_width, line, rect, shortened, text
from kit.report.plot.scale import Scale, linear_ticks

_ROW, _BAR, _TOP, _PLOT, _LEGEND = 40.0, 20.0, 34.0, 460.0, 26.0
#: A step has one colour in every report; steps that do not differ significantly have one of the rest.
_STEPS = (RUNTIME, READ, WRITE, FLUSH)
_LOOKS = 6


def plot_attribution(ladders: Sequence[Ladder], name: str = "attribution") -> Picture | None:
    """Return the plot. ``ladders``: one for each arm and point, of the whole run's real time. None without ladders, or
    if a baseline of zero leaves no share. Steps that save time extend to the left."""
    rows = [ladder for ladder in ladders if ladder.whole.share and all(step.share for step in ladder.steps)]
    if not rows:
        return None
    steps = sorted({step.name for ladder in rows for step in ladder.steps}, key=_order)
    labels = [units.against(ladder) for ladder in rows]
    label_space = label_width(labels)
    right = 20 + max(len(_percent(ladder.whole)) for ladder in rows) * CHARACTER
    low, high = _span(rows)
    scale = Scale(low, high, label_space, label_space + _PLOT)
    bottom = _TOP + _ROW * len(rows)
    parts = []
    for tick in linear_ticks(low, high):
        parts.append(line(scale.at(tick), _TOP - 4, scale.at(tick), bottom, "grid"))
        words = f"{tick * 100:+g} %" if tick else "0"
        parts.append(text(scale.at(tick), _TOP - 12, words, "middle", "quiet"))
    for i, (ladder, label) in enumerate(zip(rows, labels, strict=True)):
        parts += _row(ladder, label, _TOP + _ROW * (i + 0.5), scale, steps)
    parts.append(line(scale.at(0), _TOP - 4, scale.at(0), bottom, "zero"))
    parts += _legend(steps, 8, bottom + _LEGEND)
    description = "; ".join(
        f"{label}: {', '.join(f'{step.name} {_percent(step)}' for step in ladder.steps)}, "
        f"whole {_percent(ladder.whole)}"
        for ladder, label in zip(rows, labels, strict=True)
    )
    return Picture(
        name, "Where the cost comes from, in percent of the baseline's real time and flush", description,
        label_space + _PLOT + right, bottom + _LEGEND + 14, "".join(parts),
    )  # fmt: skip


def _order(name: str) -> tuple[int, str]:
    first = name.split(" and ")[0].partition(":")[0]
    return (_STEPS.index(first) if first in _STEPS else len(_STEPS), name)


def _look(name: str, steps: Sequence[str]) -> str:
    if name in _STEPS:
        return f"step{_STEPS.index(name)}"
    others = [step for step in steps if step not in _STEPS]
    return f"step{len(_STEPS) + others.index(name) % (_LOOKS - len(_STEPS))}"


def _share(step: LadderStep) -> float:
    return step.share.estimate if step.share else 0.0


def _percent(step: LadderStep) -> str:
    share = step.share
    if share is None:
        return units.NOTHING
    return share_interval(share)


def _span(rows: Sequence[Ladder]) -> tuple[float, float]:
    """Return the range of all bars, and of the wholes' intervals unless they dwarf the bars."""
    plus = max(sum(max(_share(step), 0) for step in ladder.steps) for ladder in rows)
    minus = min(sum(min(_share(step), 0) for step in ladder.steps) for ladder in rows)
    reach = max(plus, -minus, 0.01)
    ends = [
        end for ladder in rows if ladder.whole.share for end in (ladder.whole.share.low, ladder.whole.share.high) if end
    ]
    high = max([plus, *(min(end, 2 * reach) for end in ends)])
    low = min([minus, *(max(end, -reach) for end in ends)])
    return low - 0.03 * reach, high + 0.03 * reach


def _row(ladder: Ladder, label: str, y: float, scale: Scale, steps: Sequence[str]) -> list[str]:
    parts = [text(scale.left - 10, y + 4, shortened(label, scale.left - 10), "end")]
    ends = {True: 0.0, False: 0.0}
    for step in ladder.steps:
        share = _share(step)
        start = ends[share >= 0]
        ends[share >= 0] = start + share
        x, width = scale.at(min(start, start + share)), abs(scale.at(start + share) - scale.at(start))
        kind = _look(step.name, steps)
        parts.append(rect(x, y - _BAR / 2 - 4, width, _BAR, kind, f"{label}: {step.name} {_percent(step)}"))
        words = f"{share * 100:+z.1f}"
        if width > len(words) * CHARACTER + 6:
            parts.append(text(x + width / 2, y, words, "middle", "inside"))
    whole = ladder.whole.share
    if whole:
        under = y + _BAR / 2 + 2
        if whole.low is not None and whole.high is not None:
            ends_ = scale.at(scale.clamp(whole.low)), scale.at(scale.clamp(whole.high))
            parts.append(line(ends_[0], under, ends_[1], under, "whole"))
        if scale.within(whole.estimate):
            parts.append(
                circle(scale.at(whole.estimate), under, 4, "whole", f"{label}: whole {_percent(ladder.whole)}")
            )
    parts.append(text(scale.right + 12, y + 4, _percent(ladder.whole)))
    return parts


def _legend(steps: Sequence[str], x: float, y: float) -> list[str]:
    parts = []
    for name in steps:
        parts.append(rect(x, y - 10, 12, 12, _look(name, steps)))
        parts.append(text(x + 17, y, name, kind="quiet"))
        x += 17 + len(name) * CHARACTER + 18
    parts.append(circle(x + 5, y - 4, 4, "whole"))
    parts.append(text(x + 17, y, "whole", kind="quiet"))
    return parts
