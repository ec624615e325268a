"""Scenarios that an extra runs: which they are is said by the beginning of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from kit.extensions import EXTRAS


@dataclass(frozen=True)
class ScenarioKind:
    """What the core needs of such scenarios."""

    #: Runs what ``kit compare`` was given, and returns the exit code.
    compare: Callable[[click.Context, Mapping[str, Any]], int]
    #: Returns the names of the bundled ones.
    names: Callable[[], list[str]]
    #: Returns what one of them is, in a line.
    summary: Callable[[str], str]


def find_kind(scenario: str) -> ScenarioKind | None:
    """Return the kind of this scenario; None if the core runs it."""
    for extra in EXTRAS:
        for prefix, name in extra.scenarios.items():
            if scenario.startswith(prefix):
                kind: ScenarioKind = extra.load(name)
                return kind
    return None


def scenario_kinds() -> Iterator[ScenarioKind]:
    for extra in EXTRAS:
        yield from (extra.load(name) for name in extra.scenarios.values())
