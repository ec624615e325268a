"""A flame graph: the whole above, below each frame what it calls; widths are seconds of CPU, colours the difference."""

from __future__ import annotations

from collections.abc import Iterator

from kit.analysis.traces.flame import Frame
from kit.analysis.traces.stacks import StackCost
from kit.report.format import units
from kit.report.format.interval import amount_interval
from kit.report.plot.picture import CHARACTER, Picture, frame, rect, shortened, text

WIDTH, _ROW, _TOP, _LEGEND = 1040.0, 18.0, 34.0, 30.0
_PAD = 4.0  # beside a name
#: From this difference on, as a share of the larger value, the next darker colour is used.
_SHADES = (0.2, 0.5)
_LOOKS = (
    ("more3", "half of it"), ("more2", "a fifth or more"), ("more1", "a part"),
    ("less1", "a part"), ("less2", "a fifth or more"), ("less3", "half of it"), ("same", "not significant"),
)  # fmt: skip


def plot_flame(flame: Frame, arm: str, baseline: str, name: str, about: str) -> Picture:
    """Return the flame graph. ``baseline``: the reference for colours, '' for none. ``about``: the runs shown."""
    height = _TOP + flame.depth * _ROW
    scale = WIDTH / (flame.seconds or 1.0)
    body = [text(0, 20, _heading(arm, baseline, flame.seconds), kind="head"), *_frames(flame, 0.0, 0, scale, flame)]
    if baseline:
        body += _legend(baseline, height + 20)
        height += _LEGEND
    kind = "by-difference" if baseline else "by-kind"
    title = f"Flame graph of {arm}" + (f", coloured against {baseline}" if baseline else "")
    return Picture(
        name, title, f"{about}. {_words(flame, baseline)}", WIDTH, height + 6, "".join(body), f"flame {kind}"
    )


def _heading(arm: str, baseline: str, seconds: float) -> str:
    return f"{arm}: {units.seconds(seconds)} of CPU per run" + (f", coloured against {baseline}" if baseline else "")


def _frames(node: Frame, x: float, depth: int, scale: float, whole: Frame) -> Iterator[str]:
    width, y = node.seconds * scale, _TOP + depth * _ROW
    label = shortened(node.name, width - _PAD) if width > 3 * CHARACTER + _PAD else ""
    yield frame(
        (x, y, width, _ROW - 1), node.name, label, f"frame {_shade(node.cost)} {_kind(node)}", _hint(node, whole)
    )
    for below in node.below:
        yield from _frames(below, x, depth + 1, scale, whole)
        x += below.seconds * scale


def _kind(node: Frame) -> str:
    """Return the class of a frame: part of the machine or process; a program's function, by its form; the kernel's."""
    if len(node.path) <= 2:
        return "part"
    return "program" if node.name.endswith(")") or node.name.startswith("[") else "kernel"


def _shade(cost: StackCost | None) -> str:
    if cost is None or not cost.difference.significant:
        return "same"
    share = abs(cost.difference.estimate) / (max(cost.mean, cost.base_mean) or 1.0)
    return f"{'more' if cost.difference.estimate > 0 else 'less'}{1 + sum(share >= limit for limit in _SHADES)}"


def _hint(node: Frame, whole: Frame) -> str:
    share = node.seconds / whole.seconds if whole.seconds else 0.0
    hint = f"{node.name}: {units.seconds(node.seconds)}, {units.share(share, 1)} of all"
    cost = node.cost
    if cost is None:
        return hint
    return f"{hint}; {cost.baseline} {units.seconds(cost.base_mean)}: {amount_interval(cost.difference.together)}"


def _legend(baseline: str, y: float) -> list[str]:
    x, parts = 0.0, []
    for look, words in _LOOKS:
        before = {"more3": f"more than {baseline}:", "less1": "less:"}.get(look, "")
        if before:
            parts.append(text(x, y, before, kind="quiet"))
            x += len(before) * CHARACTER * 0.93 + 4
        parts.append(rect(x, y - 10, 12, 12, f"swatch {look}"))
        parts.append(text(x + 16, y, words, kind="quiet"))
        x += 16 + len(words) * CHARACTER * 0.88 + 12
    return parts


def _words(flame: Frame, baseline: str) -> str:
    """Return the parts, largest first, and the largest differences, for those who do not see the graph."""
    parts = sorted(flame.below, key=lambda node: -node.seconds)
    summary = "; ".join(f"{node.name} {units.seconds(node.seconds)}" for node in parts)
    if not baseline:
        return summary
    differing = sorted(_ends(flame), key=lambda cost: -abs(cost.difference.estimate))
    largest = "; ".join(f"{cost.name[-1]} {amount_interval(cost.difference.together)}" for cost in differing[:3])
    return f"{summary}. Differs most: {largest}" if largest else f"{summary}. No function differs significantly"


def _ends(node: Frame) -> Iterator[StackCost]:
    """Return where a significant difference can't be followed any farther."""
    below = [cost for frame in node.below for cost in _ends(frame)]
    yield from below
    if not below and len(node.path) > 2 and node.cost and node.cost.difference.significant:
        yield node.cost
