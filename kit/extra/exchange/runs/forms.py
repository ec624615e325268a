"""The forms in which shells, ``time`` and ``perf stat`` print a run, each a row of a table. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kit.core.errors import UsageError
from kit.parsers.tried import Tried

_SHELLS = (
    ("bash", "5.2"), ("dash", "0.5.12"), ("BusyBox", "1.35"), ("zsh", "5.9"), ("fish", "3.6"), ("tcsh", "6.24"),
    ("mksh", "59c"), ("ksh", "93u+m 1.0"), ("toybox", "0.8.9"),
)  # fmt: skip
_TIMED = "( time make ) 2> bare.txt"
_FIGURES = "real, user, sys; a failure as far as the line before or after says so"
TRIED = (
    Tried(
        "GNU time", ("1.9",), command="/usr/bin/time -v -o bare.txt make",
        figures="real, user, sys, memory, faults, and how it failed; of -v also switches",
    ),
    *(Tried(shell, (version,), command=_TIMED, figures=_FIGURES) for shell, version in _SHELLS),
    Tried("time of BSD and macOS", forms=("their manuals",), command=_TIMED, figures=_FIGURES),
    Tried(
        "perf stat", ("6.1",), refused="-j, -x, -I", command="perf stat -r 5 --table -o bare.txt make",
        figures="elapsed time of each run; without --table perf prints their mean alone, which is one run",
    ),
)  # fmt: skip
# Every repetition is bounded, and none may begin inside a number. So time is proportional to the text, and no number is
# read in part.
_NUMBER = r"\d{1,9}(?:[.,]\d{1,9})?"
_UNITS = {
    "": 1.0, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "ms": 1e-3, "millis": 1e-3, "us": 1e-6, "µs": 1e-6,
    "micros": 1e-6, "mins": 60.0, "hours": 3600.0,
}  # fmt: skip
_CLOCK = re.compile(
    r"(?:(?P<d>\d{1,5})d ?)?(?:(?P<h>\d{1,6})(?:h ?|:(?=\d{1,2}:)))?(?:(?P<m>\d{1,9})(?:m ?|:))?"
    rf"(?P<s>{_NUMBER})(?: ?(?P<unit>{'|'.join(sorted(filter(None, _UNITS), key=len, reverse=True))}))?(?![\d:])"
)
_TIME = re.sub(r"\(\?P<\w+>", "(?:", _CLOCK.pattern)
_REAL, _USER, _SYS = (rf"(?P<{key}>{_TIME})" for key in ("real", "user", "sys"))
#: Other text of the line before the figures, as output without a line's end.
_BEFORE = r".{0,2000}?(?<![\d.,:])"
_IS = r"(?:\s{1,40}|\s{0,40}[:=]\s{0,40})"
_LONG = r"(?=\d{1,9}[hm])"  # no date, which has slashes as well


@dataclass(frozen=True)
class Form:
    """How one program prints its figures. Groups of the pattern are figures (``real``, ``user`` and ``sys`` in any
    clock), its ``name``, its ``exit`` status, ``each``, the real time of one of several runs, and ``mean``, where the
    figures are means of several."""

    names: tuple[str, ...]  # of the programs, as --format has them
    clue: re.Pattern[str]  # is in each of its lines, and quick to look for
    pattern: re.Pattern[str]  # one line or another of a run
    needs: tuple[str, ...]  # figures without which a run is incomplete
    ends: str  # the end of a name that may have several lines

    @property
    def title(self) -> str:
        return "/".join(self.names)


_ALL = ("real", "user", "sys")


def _form(*names: str, clue: str, lines: tuple[str, ...], needs: tuple[str, ...] = _ALL, ends: str = "") -> Form:
    return Form(names, re.compile(clue), re.compile("|".join(f"(?:{line})" for line in lines)), needs, ends)


#: The first form that has a line counts.
FORMS = (
    _form("gnu-verbose", clue=r"\(s|\):|faults:|switches:|status:|timed:", lines=(
        r'Command being timed: "(?P<name>.{0,4000}?)(?P<end>")?$',
        rf"User time \((?:seconds|s)\):\s*{_USER}$",
        rf"System time \((?:seconds|s)\):\s*{_SYS}$",
        rf"(?:Elapsed \(wall clock\) time .{{0,40}}?\)|Real time \(s\)):\s*{_REAL}$",
        r"Max(?:imum resident set size \(kbytes\)| RSS \(KiB\)):\s{0,20}(?P<max_rss>\d{1,15})$",
        r"Major (?:\(requiring I/O\) page )?faults:\s{0,20}(?P<major_faults>\d{1,15})$",
        r"Minor (?:\(reclaiming a frame\) page )?faults:\s{0,20}(?P<minor_faults>\d{1,15})$",
        r"Voluntary context switches:\s{0,20}(?P<voluntary_switches>\d{1,15})$",
        r"Involuntary context switches:\s{0,20}(?P<involuntary_switches>\d{1,15})$",
        r"Exit status:\s{0,20}(?P<exit>\d{1,15})$",
    ), ends='"'),
    _form("gnu", "dash", clue=r"\d ?s? ?user|pagefaults", lines=(
        rf"{_BEFORE}{_USER} ?user,?\s*{_SYS} ?sys(?:tem)?,?\s*{_REAL} ?(?:elapsed|real)\b"
        r"(?:.{0,80}?\D(?P<max_rss>\d{1,15})maxresident\)k)?",
        r"\d+inputs\+\d+outputs \((?P<major_faults>\d{1,15})major\+(?P<minor_faults>\d{1,15})minor\)pagefaults",
    )),
    _form("zsh", clue=r"%\s+cpu\s", lines=(
        rf"(?P<name>{_BEFORE}){_USER}\s+user\s+{_SYS}\s+system\s+[\d.,]{{1,20}}%\s+cpu\s+{_REAL}\s+total\b",
    )),
    _form("tcsh", clue=r"\du\s+\d", lines=(
        rf"{_BEFORE}{_USER}u\s+{_SYS}s\s+{_REAL}"
        r"(?:$|\s+[\d.,]{1,20}%(?:.{0,80}?\D(?P<major_faults>\d{1,15})pf)?)",
    )),
    _form("bsd", "mksh", clue=r"\d ?s?\s*(?:real|elapsed)|\d\s+page |\d\s+(?:in)?voluntary", lines=(
        rf"{_BEFORE}{_REAL}\s*(?:real|elapsed),?\s+{_USER}\s*user,?\s+{_SYS}\s*sys(?:tem)?\b",
        r"(?P<minor_faults>\d{1,15})\s+page reclaims$",
        r"(?P<major_faults>\d{1,15})\s+page faults$",
        r"(?P<voluntary_switches>\d{1,15})\s+voluntary context switches$",
        r"(?P<involuntary_switches>\d{1,15})\s+involuntary context switches$",
    )),
    _form("bash", "posix", "busybox", "ksh", clue=r"(?:real|elapsed|user|sys)[\s:=]", lines=(
        rf"(?:real|elapsed){_IS}{_REAL},?\s+user{_IS}{_USER},?\s+sys(?:tem)?{_IS}{_SYS}$",
        rf"real{_IS}(?P<real_>{_TIME})$", rf"user{_IS}(?P<user_>{_TIME})$", rf"sys{_IS}(?P<sys_>{_TIME})$",
    )),
    _form("fish", clue=r"Executed in|(?:usr|sys) time", lines=(
        rf"Executed in\s+{_REAL}\b", rf"usr time\s+{_USER}\b", rf"sys time\s+{_SYS}\b",
    )),
    _form("perf-stat", clue=r"counter stats for| seconds (?:time|user|sys)|\d \([+-]", lines=(
        r"Performance counter stats for (?:[A-Za-z ]{1,30} )?'(?P<name>.{0,4000}?)(?P<end>'(?: \(\d{1,9} runs\))?:)?$",
        rf"(?P<real>{_NUMBER})(?P<mean> \+- {_NUMBER})? seconds time elapsed\b",
        rf"(?P<user>{_NUMBER})(?: \+- {_NUMBER})? seconds user\b",
        rf"(?P<sys>{_NUMBER})(?: \+- {_NUMBER})? seconds sys\b",
        rf"(?P<each>{_NUMBER}) \([+-][\d.,]{{1,24}}\)(?: #{{0,200}})?$",
    ), needs=("real",), ends="':"),
    _form("measure-command", clue="TotalSeconds", lines=(rf"TotalSeconds\s+:\s+{_REAL}$",), needs=("real",)),
    _form("slashes", clue=r"\s?/\s?\d", lines=(rf"{_LONG}{_REAL}\s?/\s?{_LONG}{_USER}\s?/\s?{_LONG}{_SYS}$",)),
)  # fmt: skip

_SIGNALS = {
    "hangup": 1, "quit": 3, "illegal instruction": 4, "trace/breakpoint trap": 5, "abort": 6, "aborted": 6,
    "bus error": 7, "floating point exception": 8, "killed": 9, "segmentation fault": 11, "broken pipe": 13,
    "terminated": 15, "cpu time limit exceeded": 24, "file size limit exceeded": 25,
}  # fmt: skip
#: What ``time`` itself prints before the figures of a run that failed.
FAILED = re.compile(
    r".{0,2000}?Command (?:exited with non-zero status (?P<exit>\d{1,3})"
    r"|(?:terminated|stopped) by signal (?P<signal>\d{1,3}))$"
    r"|(?:time: )?[Cc]ommand terminated abnormally\.?$"
)
#: What shells, make and ninja print of a run that failed, directly before its figures.
FAILED_BEFORE = re.compile(
    rf"(?:[^\s:]{{1,200}}:\s{{1,3}}(?:line )?){{0,3}}(?:\[\d+\] +)?(?:\d{{1,9}}:? )?(?P<word>{'|'.join(_SIGNALS)})"
    r"(?: \(core dumped\))?(?:\s{2,}.{0,2000})?$"
    r"|fish: .{0,2000} terminated by signal SIG[A-Z]{2,9}\b|g?make: \*\*\* |ninja: build stopped"
    r"|(?-i:Exit) (?P<exit>\d{1,3})$",
    re.IGNORECASE,
)
#: What CI services, builders and make, of the recipe that has the run, print directly after the figures.
FAILED_AFTER = re.compile(
    r".{0,2000}?(?<![\w-])"
    r"(?:exit(?:ed)?(?: with)?(?:[ _-]?(?:code|status))?[:= ]{1,3}|non-zero code: |rc[:=] ?"
    r"|make(?:\[\d{1,3}\])?: \*\*\* \[.{0,2000}?\] Error )'?(?P<exit>\d{1,3})\b",
    re.IGNORECASE,
)


def failure(match: re.Match[str]) -> str:
    """Return why a run failed; '' for exit status 0."""
    groups = match.groupdict()
    if groups.get("exit"):
        return f"exit code {int(groups['exit'])}" if int(groups["exit"]) else ""
    signal = groups.get("signal") or _SIGNALS.get((groups.get("word") or "").lower())
    if signal:
        return f"ended by signal {signal}"
    return match.string.strip()[:200]


#: Forms that are not read, and what to do about each.
REFUSED = (
    ("perf stat -j", re.compile(r'\{.{0,200}?"counter-value"'), "run perf stat without -j"),
    (
        "perf stat -x",
        re.compile(
            r"(?:.{0,80}[,;|\t])?(?:[\d.,]{1,20}|<not (?:counted|supported)>)[,;|\t](?:[a-zA-Z]{0,9}[,;|\t])?"
            r"(?:(?:task|cpu)-clock|(?:duration|user|system)_time|context-switches|cpu-migrations|page-faults|cycles|"
            r"instructions|branches|branch-misses)(?::\w{1,9})?[,;|\t]"
        ),
        "run perf stat without -x",
    ),
    ("perf stat -I", re.compile(r"#?\s*time\s+counts unit events$"), "run perf stat without -I"),
    ("hyperfine's table", re.compile(r"Time \((?:mean|abs)\b.{1,8}\):"), "give the file of hyperfine --export-json"),
)
_LIKE = re.compile(
    r"(?<![\w.-])(?:real|user|usr|sys)(?:\\t|\s{0,20}[:=|]\s{0,20}|\s{1,20})\d{1,20}(?:[hm]|[.,:]\d|\s?s\b)"
    r"|\d ?s?\s{0,20}user\b.{0,80}?\d ?s?\s{0,20}sys"
    r"|\delapsed|Elapsed \(wall clock|\d seconds (?:time elapsed|user|sys)\b|Executed in\s{1,20}\d"
    r"|(?:User|System) time \(s|TotalSeconds\s{1,20}:"
)
_KEYS = frozenset(["real", "Real", "elapsed", "Elapsed", "user", "sys"])
_CLUES = (*_KEYS, "usr time", "Executed in", "time (s", "seconds time", "TotalSeconds")
_WORDS = _KEYS.union(
    ["User", "usr", "Sys", "system", "System", "total", "Total", "wall", "clock", "time", "Time", "cpu", "CPU", "in"],
    ["d", "h", "m", "s", "ms", "us", "min", "mins", "minute", "minutes", "sec", "secs", "second", "seconds", "hours"],
)


def looks_like_a_time(text: str) -> bool:
    """Return whether a line has the words and numbers of a run's time."""
    if not any(key in text for key in _CLUES):
        return False
    if _LIKE.search(text):
        return True
    if len(text) > 200 or not any(character.isdigit() for character in text):
        return False
    words = set(re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text))
    return bool(words & _KEYS) and words <= _WORDS


def clock_seconds(text: str) -> float:
    """Return ``29m59.190s``, ``1h 2m 3s``, ``1:02:03``, ``29:59.19``, ``54.47 mins`` or ``1799,19`` in seconds. Raises
    UsageError."""
    match = _CLOCK.fullmatch(text.strip())
    if not match:
        raise UsageError(f"'{text}' is not a time", "use for example 29m59.190s or 29:59.19")
    days, hours, minutes = (int(match[key] or 0) for key in "dhm")
    last = float(match["s"].replace(",", ".")) * _UNITS[match["unit"] or ""]
    return days * 86400 + hours * 3600 + minutes * 60 + last
