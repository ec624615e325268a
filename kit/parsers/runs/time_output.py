"""Reads what ``time`` prints: bash's keyword, POSIX ``time -p``, GNU time's default and verbose forms. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kit.core.errors import UsageError
from kit.parsers.runs.timed_run import TimedRun, exit_error

# Every repetition is bounded, and none may begin inside a number. So time is proportional to the text, and no number is
# read in part.
_GAP = r"[ \t\r]{0,20}"
_SECONDS = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_CLOCK = r"(?:(?P<h>[0-9]{1,9})[h:])?(?:(?P<m>[0-9]{1,9})[m:])?(?P<s>[0-9]{1,9}(?:[.,][0-9]{1,9})?)s?"
_LINES = re.compile(rf"^{_GAP}(?P<key>real|user|sys)(?=[ \t]){_GAP}{_CLOCK}{_GAP}$", re.MULTILINE)
_VERBOSE = {
    "user": re.compile(rf"User time \(seconds\):{_GAP}{_CLOCK}{_GAP}$", re.MULTILINE),
    "sys": re.compile(rf"System time \(seconds\):{_GAP}{_CLOCK}{_GAP}$", re.MULTILINE),
    "real": re.compile(rf"Elapsed \(wall clock\) time[^\n]{{0,40}}?\):{_GAP}{_CLOCK}{_GAP}$", re.MULTILINE),
}
_SHORT = re.compile(
    rf"(?<![0-9])(?<![0-9]\.)(?P<user>{_SECONDS})user{_GAP}(?P<sys>{_SECONDS})system{_GAP}(?P<real>[0-9:.]{{1,30}})elapsed"
)
#: Figures and words beside the times, each once for each run, or left out.
_COUNT = rf"{_GAP}(?P<value>[0-9]{{1,15}}){_GAP}$"
_BESIDE = {
    "max_rss": re.compile(
        rf"Maximum resident set size \(kbytes\):{_COUNT}|(?<![0-9])(?P<short>[0-9]{{1,15}})maxresident\)k", re.MULTILINE
    ),
    "major_faults": re.compile(rf"Major \(requiring I/O\) page faults:{_COUNT}", re.MULTILINE),
    "minor_faults": re.compile(rf"Minor \(reclaiming a frame\) page faults:{_COUNT}", re.MULTILINE),
    "voluntary_switches": re.compile(rf"Voluntary context switches:{_COUNT}", re.MULTILINE),
    "involuntary_switches": re.compile(rf"Involuntary context switches:{_COUNT}", re.MULTILINE),
}
_UNITS = {"max_rss": 1024.0}
_NAME = re.compile(r'Command being timed: "(?P<name>[^\n]{0,2000})"$', re.MULTILINE)
#: GNU time says 0 as the exit status of a run that a signal ended.
_SIGNAL = re.compile(
    r"(?:Command terminated by signal (?P<value>[0-9]{1,3})\n)?[ \t]{0,20}Command being timed:", re.MULTILINE
)
_EXIT = re.compile(rf"Exit status:{_COUNT}", re.MULTILINE)
_FIGURE = r"([0-9hm:.,]{1,30}s?)"
#: Figures on one line, as in posts: ``29m59.190s / 278m0.988s / 59m47.379s``.
_SLASHED = re.compile(rf"^{_GAP}{_FIGURE}{_GAP}/{_GAP}{_FIGURE}{_GAP}/{_GAP}{_FIGURE}{_GAP}$", re.MULTILINE)


def read_time_output(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every measurement in the text, in order. Raises UsageError if one is incomplete."""
    runs = _keyword(text, where) or _verbose(text, where) or _short(text) or _slashed(text)
    names = _of_each(_NAME, text, len(runs))
    exits, signals = _of_each(_EXIT, text, len(runs)), [match["value"] for match in _SIGNAL.finditer(text)]
    if len(signals) == len(exits):
        exits = ["" if signal else code for signal, code in zip(signals, exits, strict=True)]
    beside = {key: _of_each(form, text, len(runs)) for key, form in _BESIDE.items()}
    return tuple(
        TimedRun(
            names[number] if names else "",
            {
                "real": real, "user": user, "sys": sys,
                **{key: float(found[number]) * _UNITS.get(key, 1.0) for key, found in beside.items() if found},
            },
            exit_error(int(exits[number]) if exits[number] else None) if exits else "",
        )
        for number, (real, user, sys) in enumerate(runs)
    )  # fmt: skip


def _of_each(form: re.Pattern[str], text: str, count: int) -> list[str]:
    """Return one text for each run; nothing if their numbers differ."""
    found = [match[match.lastgroup or 0] for match in form.finditer(text)]
    return found if len(found) == count else []


def _keyword(text: str, where: str) -> list[tuple[float, float, float]]:
    found: dict[str, list[float]] = {"real": [], "user": [], "sys": []}
    for match in _LINES.finditer(text):
        found[match["key"]].append(_seconds(match))
    return _runs(found, where)


def _verbose(text: str, where: str) -> list[tuple[float, float, float]]:
    return _runs({key: [_seconds(match) for match in form.finditer(text)] for key, form in _VERBOSE.items()}, where)


def _runs(found: Mapping[str, list[float]], where: str) -> list[tuple[float, float, float]]:
    if len({len(values) for values in found.values()}) > 1:
        raise UsageError(f"{where}: unequal numbers of real, user and sys", "give all three for each run")
    return list(zip(found["real"], found["user"], found["sys"], strict=True))


def _short(text: str) -> list[tuple[float, float, float]]:
    return [(clock_seconds(m["real"]), float(m["user"]), float(m["sys"])) for m in _SHORT.finditer(text)]


def _slashed(text: str) -> list[tuple[float, float, float]]:
    return [(clock_seconds(m[1]), clock_seconds(m[2]), clock_seconds(m[3])) for m in _SLASHED.finditer(text)]


def clock_seconds(text: str) -> float:
    """Return ``29m59.190s``, ``1h02m03s``, ``29:59.19`` or ``1799.19`` in seconds. Raises UsageError."""
    match = re.fullmatch(_CLOCK, text.strip())
    if not match:
        raise UsageError(f"'{text}' is not a time", "use for example 29m59.190s or 29:59.19")
    return _seconds(match)


def _seconds(match: re.Match[str]) -> float:
    hours, minutes = match["h"], match["m"]
    if hours and not minutes and ":" in match[0]:
        hours, minutes = None, hours  # 29:59.19 is minutes and seconds
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(match["s"].replace(",", "."))
