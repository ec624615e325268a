"""The words of the glossary that the kit does not use, and what it says instead (docs/glossary.md).

``test_prose.py`` checks docs with them, ``test_words.py`` the strings of ``kit/``. Each test has its own short list of
allowed places. A word matches whole words only, in any case, and over a line's end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Avoided:
    """``pattern``: a regular expression without word borders, with a blank for any white space."""

    pattern: str
    instead: str

    @cached_property
    def expression(self) -> re.Pattern[str]:
        words = self.pattern.replace(" ", r"\s+")
        return re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE)


AVOIDED = (
    Avoided("told|untold", "significant, distinguishable, not significant"),
    Avoided("can't tell|can't be told|tells? apart|tells? from none", "cannot show; cannot distinguish"),
    Avoided("(?:all|hold|holds) at once", "simultaneous"),
    Avoided("taken alone|looked at alone|one at a time", "individual"),
    Avoided("turns|by turn|in turn", "interleaved; time slices; sequential"),
    Avoided("whole runs", "sequential runs"),
    Avoided("made again|once more|repeats", "rerun"),
    Avoided("bursts?", "disturbance"),
    Avoided("hit from outside", "disturbed"),
    Avoided("mend|mends|mended|mending", "fix"),
    Avoided("elsewhere", "outside CPU, outside"),
    Avoided("metric whole|whole time", "durable: real + flush"),
    Avoided("alike", "the same, similar; group (column)"),
    Avoided("farms?", "fleet"),
    Avoided("misfits?|(?:does|do) not fit", "outlier"),
    Avoided("held? against|holds against|hold to|holds to|held to", "compared with, checked against"),
    Avoided("sureness", "confidence"),
    Avoided("chances?", "probability"),
    Avoided("(?:the|a|its) reach", "margin (half-width)"),
    Avoided("so many|so long", "N, DURATION"),
    Avoided("of which that holds", "matching"),
    Avoided("dearest|dearer|costs most", "most expensive, largest"),
    Avoided("read anew|reads? anew|anew", "page cache is refreshed; again"),
    Avoided("gives? way|lets? go", "stops, releases"),
    Avoided("is there|are there|is none|stands|stand", "exists, is missing, is listed"),
    Avoided("for want of", "without"),
)


@dataclass(frozen=True)
class Found:
    """A word of the left column: ``line`` counts from 1."""

    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.word!r}; say: {self.instead}"


def avoided_words(text: str) -> Iterator[Found]:
    """Yield each word of the left column that ``text`` holds."""
    for avoided in AVOIDED:
        for match in avoided.expression.finditer(text):
            yield Found(text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), avoided.instead)
