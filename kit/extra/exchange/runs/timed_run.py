"""A run that somebody else timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class TimedRun:
    """One timed run of a program's output."""

    name: str  # what was timed, '' if its output does not say
    figures: Mapping[str, float]  # seconds, bytes and counts by the names of a phase's metrics
    error: str = ""  # why the run failed, '' if it did not
    form: str = ""  # of its output
    mean: bool = False  # it is the mean of several runs, since the output has no single ones
    paired: bool = False  # runs of one number and several names were made one after the other


def exit_error(code: int | None) -> str:
    """Return the reason of a failure by its exit code; a run that a signal ended has none."""
    if code is None:
        return "ended by a signal"
    return f"exit code {code}" if code else ""
