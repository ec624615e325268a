"""Reads what ``time`` prints: bash's keyword, POSIX ``time -p``, GNU time's default and verbose forms. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kit.core.errors import UsageError
from kit.model.sample import Phase

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
_MAX_RSS = re.compile(
    rf"Maximum resident set size \(kbytes\):{_GAP}([0-9]{{1,15}}){_GAP}$|(?<![0-9])([0-9]{{1,15}})maxresident\)k",
    re.MULTILINE,
)
_FIGURE = r"([0-9hm:.,]{1,30}s?)"
#: Figures on one line, as in posts: ``29m59.190s / 278m0.988s / 59m47.379s``.
_SLASHED = re.compile(rf"^{_GAP}{_FIGURE}{_GAP}/{_GAP}{_FIGURE}{_GAP}/{_GAP}{_FIGURE}{_GAP}$", re.MULTILINE)


def parse_time_output(text: str, where: str) -> tuple[Phase, ...]:
    """Return every measurement in the text, in order. Raises UsageError if one is incomplete, or without any."""
    runs = _keyword(text, where) or _verbose(text, where) or _short(text) or _slashed(text)
    if not runs:
        raise UsageError(
            f"{where}: no output of `time` in it",
            "give a file with real, user and sys, as bash or GNU time prints them",
        )
    peak = _MAX_RSS.search(text)
    rss = float(peak[1] or peak[2]) * 1024 if peak and len(runs) == 1 else None
    return tuple(Phase("run", "ok", real=real, user=user, sys=sys, max_rss=rss) for real, user, sys in runs)


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
