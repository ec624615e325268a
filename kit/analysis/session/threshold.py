"""Limits on penalties that users set, ``layer:overlay2 build < 10 %``, and what a comparison says of one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.analysis.stats.estimate import NO_INTERVAL, Verdict
from kit.core.errors import UsageError
from kit.model.arm import parse_arm
from kit.model.default import DEFAULT_ENGINE
from kit.model.metric import COMPARED

if TYPE_CHECKING:
    from kit.analysis.runs.compare import Comparison

_FORM = re.compile(r"(?P<words>\S+(?:\s+\S+){0,2}?)\s*<\s*(?P<limit>[+-]?[0-9]{1,6}(?:\.[0-9]{1,9})?)\s*%")
_EXAMPLE = (
    "use for example 'layer:overlay2 < 10 %', 'layer:overlay2 build < 10 %', 'layer:overlay2 build cpu_total < 5 %'"
)
#: Rounds from which on an interval is narrow enough for a limit.
_ENOUGH = 5


@dataclass(frozen=True)
class Threshold:
    """The most that an arm may cost above its baseline. In a sweep it applies to every point."""

    arm: str
    phase: str  # '' for the whole run
    metric: str
    limit: float  # a ratio: 1.1 for 10 %

    def __str__(self) -> str:
        metric = "" if self.metric == "real" else f" {self.metric}"
        phase = f" {self.phase}" if self.phase else ""
        return f"{self.arm}{phase}{metric} < {(self.limit - 1) * 100:g} %"

    def find(self, comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
        """Return the threshold's comparisons, one for each point; empty if the arm or the phase was not measured."""
        matching = [
            comparison for comparison in comparisons if (comparison.arm, comparison.metric) == (self.arm, self.metric)
        ]
        if self.phase:
            return tuple(comparison for comparison in matching if comparison.phase == self.phase)
        last = {comparison.point: comparison for comparison in matching}  # the whole run comes last
        return tuple(last.values())

    def judge(self, comparison: Comparison) -> Verdict:
        """Return on which side of the limit the individual interval lies."""
        return comparison.estimate.beside(self.limit) if comparison.estimate else NO_INTERVAL


def rounds_note(rounds: int) -> str:
    """Return why a limit hardly fails with so few rounds, and the fix; '' if there are enough."""
    if rounds > 2:
        return ""
    fix = f"use {_ENOUGH} rounds or more"
    if rounds == 1:
        return f"1 round has no interval, so no limit can fail: {fix}"
    return f"2 rounds seldom decide a limit, and an undecided one does not fail: {fix}"


def parse_threshold(text: str, engine: str = DEFAULT_ENGINE) -> Threshold:
    """Parse ``ARM [PHASE] [METRIC] < P %``; the default metric is real time. Raises UsageError."""
    match = _FORM.fullmatch(text.strip())
    if not match:
        raise UsageError(f"threshold '{text}': not ARM [PHASE] [METRIC] < P %", _EXAMPLE)
    arm, *words = match["words"].split()
    metric = words.pop() if words and words[-1] in COMPARED else "real"
    if len(words) > 1:
        raise UsageError(f"threshold '{text}': unknown metric '{words[-1]}'", f"use one of: {', '.join(COMPARED)}")
    limit = 1 + float(match["limit"]) / 100
    if limit <= 0:
        raise UsageError(f"threshold '{text}': the limit is below -100 %", _EXAMPLE)
    return Threshold(str(parse_arm(arm, engine)), words[0] if words else "", metric, limit)
