"""Sentences of extras on what an arm's cost comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kit.analysis.session.analyse import Analysis
from kit.extensions import added


class Cause(NamedTuple):
    """What an arm's cost comes from, at one point."""

    arm: str
    point: str
    sentence: str  # '' where nothing significant explains it


def causes(analysis: Analysis) -> Iterator[Cause]:
    for find_causes in added("causes"):
        yield from find_causes(analysis)
