"""A run that somebody else timed, and the names of such runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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


def distinct(names: Sequence[tuple[str, str]]) -> list[str]:
    """Return one name for each benchmark. ``names``: its short and its long one. The short one is taken if no other
    benchmark has it, else the long one, with a number if others have that as well."""
    short, long = (Counter(pair[place] for pair in names) for place in (0, 1))
    uses: Counter[str] = Counter()
    chosen = []
    for pair in names:
        name = pair[0] if short[pair[0]] == 1 else pair[1]
        if name == pair[1] and long[name] > 1:
            uses[name] += 1
            name = f"{name} ({uses[name]})"
        chosen.append(name)
    return chosen


def with_parameters(name: str, parameters: Mapping[str, str]) -> str:
    """Return the name with its parameters, as hyperfine shows them."""
    details = ", ".join(f"{key} = {value}" for key, value in parameters.items())
    return f"{name} ({details})" if details else name
