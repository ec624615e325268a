"""Reads what ``perf stat`` prints, with ``-r N`` and ``--table`` or without. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from kit.core.errors import UsageError
from kit.parsers.runs.timed_run import TimedRun

# Every repetition is bounded, so time is proportional to the text.
_NUMBER = r"[0-9]{1,12}(?:[.,][0-9]{1,12})?"
_HEAD = re.compile(
    r"^ Performance counter stats for '(?P<name>[^\n]{0,2000})'(?: \([0-9]{1,9} runs\))?:$", re.MULTILINE
)
_TABLE = re.compile(rf"^ {{1,20}}(?P<real>{_NUMBER}) \([+-][0-9.,]{{1,24}}\)(?: #*)?$", re.MULTILINE)
_SECONDS = {
    "real": re.compile(
        rf"^ {{1,30}}(?P<value>{_NUMBER})(?: \+- {_NUMBER})? seconds time elapsed(?=\s|$)", re.MULTILINE
    ),
    "user": re.compile(rf"^ {{1,30}}(?P<value>{_NUMBER})(?: \+- {_NUMBER})? seconds user(?=\s|$)", re.MULTILINE),
    "sys": re.compile(rf"^ {{1,30}}(?P<value>{_NUMBER})(?: \+- {_NUMBER})? seconds sys(?=\s|$)", re.MULTILINE),
}


def read_perf_stat(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every run of a table (``--table``); without it their mean as one run, since perf prints no more."""
    heads = list(_HEAD.finditer(text))
    return tuple(
        run
        for head, after in zip_longest(heads, heads[1:])
        for run in _runs(head["name"], text[head.end() : after.start() if after else None], where)
    )


def _runs(name: str, text: str, where: str) -> Iterator[TimedRun]:
    listed = [_seconds(match["real"]) for match in _TABLE.finditer(text)]
    if listed:
        yield from (TimedRun(name, {"real": real}) for real in listed)
        return
    found = {key: match for key, form in _SECONDS.items() if (match := form.search(text))}
    if "real" not in found:
        raise UsageError(f"{where}: no elapsed time of '{name[:100]}'", "give all that perf stat has printed")
    yield TimedRun(name, {key: _seconds(match["value"]) for key, match in found.items()})


def _seconds(text: str) -> float:
    return float(text.replace(",", "."))
