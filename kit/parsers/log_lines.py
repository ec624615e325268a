"""The lines of a log without what CI services, containers and terminals put before them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

#: Most prefixes of a line: a bound, so that time is proportional to the text.
_MOST = 12
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-9;:?]{0,40}[A-Za-z]|[\]_P][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[()][A-Z0-9])|[\ufeff\x07]"
)
_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
#: Each prefix that is known. A part that names one of several outputs is a ``stream``; the rest is noise.
_PREFIX = re.compile(
    "|".join(
        (
            r"(?P<job>[^\t]{1,200}\t[^\t]{1,200}\t)(?=\d{4}-\d\d-\d\dT)",  # gh run view --log
            rf"\d{{4}}-\d\d-\d\d[T ]{_TIME}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?",  # Actions, Azure, kubectl, log libraries
            rf"[A-Z][a-z]{{2}} [ \d]\d {_TIME}(?: [\w.-]{{1,80}} [\w./()-]{{1,80}}(?:\[\d{{1,9}}\])?:)?",  # journald
            r"(?:[\w.-]{1,80} )?[\w./-]{1,80}\[\d{1,9}\]:",  # systemd's short-iso, after its time
            r"(?P<step>#\d{1,6})(?: \d{1,9}\.\d{1,6}(?=\s|$))?",  # BuildKit
            r"\d{1,9}\.\d{1,6}(?=\s+(?:real|user|sys)\b)",  # BuildKit repeats a failed step so
            r"(?P<bracket>\[[^\]]{1,200}\])(?:[A-Za-z ]?:)?",  # Jenkins, TeamCity, kubectl --prefix, Maven
            rf"(?:{_TIME})(?=\s)",  # Jenkins' timestamps
            r"[0-9a-f]{2}[OE][ +]",  # GitLab, after its time
            r"section_(?:start|end):\d{1,12}:[\w.-]{1,200}(?:\[[^\]]{0,200}\])?",  # GitLab
            r"(?:stdout|stderr) [FP](?=\s)",  # container runtimes
            r"(?P<service>[A-Za-z][\w./@-]{0,200})\s{1,40}\|(?=\s|$)",  # Docker Compose
            r"(?P<ended>[A-Za-z][\w./@-]{0,200})(?= exited with code \d)",  # the same
            r"(?:INFO|DEBUG|WARN|WARNING|ERROR|stdout|stderr):?(?=\s)",
            r"(?:=>|[>+#*|\u2502-]{1,3})(?=\s)",  # quotations, set -x, lists
        )
    )
)
#: In brackets: times, which differ from line to line.
_NO_STREAM = re.compile(r"\[[\d\s:.,TZ+-]{1,40}\]")

#: Around what BuildKit repeats.
_RULE = "------"


class LogLine(NamedTuple):
    """One line of a log."""

    number: int  # of the line in its file, from 1
    stream: str  # which of several outputs it belongs to
    text: str  # the line without prefixes, and without blanks around
    whole: str  # the line with its prefixes
    repeated: bool  # of a step that failed, whose end BuildKit prints once more


def log_lines(text: str) -> Iterator[LogLine]:
    """Yield the lines that hold more than prefixes; a carriage return ends one, too."""
    before, repeated = "", False
    for number, line in enumerate(text.split("\n"), start=1):
        for part in line.split("\r"):
            whole = _ESCAPE.sub("", part).strip() if part else ""
            stream, position = _prefix(whole)
            content = whole[position:]
            if content:
                repeated = content != _RULE and (repeated or (before == _RULE and content.endswith(":")))
                yield LogLine(number, _RULE if repeated else stream, content, whole, repeated)
                before = content


def _prefix(whole: str) -> tuple[str, int]:
    """Return the stream that a line's prefixes name, and where they end."""
    stream, position = "", 0
    for _ in range(_MOST):
        match = _PREFIX.match(whole, position)
        if not match:
            break
        if match.lastgroup and not _NO_STREAM.fullmatch(match[match.lastgroup]):
            stream += match[match.lastgroup].strip()
        position = match.end()
        while whole[position : position + 1].isspace():
            position += 1
    return stream, position
