"""Exit codes of all commands: each code, its name and its meaning. Pure."""

from __future__ import annotations

from collections.abc import Iterable

#: 130 is what a shell reports of a command that SIGINT has ended: 128 + 2.
DONE, FAILED, USAGE, NOT_RUN, BUSY, OVER_LIMIT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

#: What each code means: a few words for help, and the rest of the sentence for the reference.
MEANINGS = {
    DONE: ("done", "also if the reader of the output has gone, as in `kit scenarios | head -1`"),
    FAILED: ("an arm or another step failed", "or results are not stored yet (`kit sync`)"),
    USAGE: ("usage or bad input", "or this machine lacks a right or a tool; nothing was measured"),
    NOT_RUN: ("an arm you named did not run", "of a night or suite also a task; the others ran"),
    BUSY: ("another session holds the machine", "or the machine did not become quiet"),
    OVER_LIMIT: ("over a limit", "a penalty crossed its threshold, or regressed: `kit nightly`"),
    INTERRUPTED: ("interrupted", "what was measured is kept"),
}


def described(*codes: int) -> str:
    """Return the line of a command's help that names its exit codes."""
    return f"Exit codes: {', '.join(f'{code} {MEANINGS[code][0]}' for code in codes)}."


def worst(codes: Iterable[int]) -> int:
    """Return the code of several results: DONE if all are, else the one that says most, which is the lowest."""
    return min(filter(None, codes), default=DONE)
