"""Text in lines that fit a terminal."""

from __future__ import annotations

import re
import shutil
import textwrap

#: Columns of default output, and of full output.
NARROW, WIDE = 100, 118
#: Spaces within a figure: before its unit, before its interval, between the interval's ends.
_WITHIN = re.compile(
    r"(?<=\d) (?=(?:%|s|ms|us|µs|ns|[KMGT]iB|[kMGT]?B)(?!\w))|(?<=[%\w]) (?=\[[+-]?\d)|(?<=\d,) (?=[+-]?[\d.,]+\])"
)
_GLUE = "\u00a0"
#: A word of a shell's command line, with its quotes.
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""")


def screen() -> int:
    """Return the columns of the terminal, NARROW at most; NARROW also for a file or a pipe."""
    return min(NARROW, shutil.get_terminal_size((NARROW, 0)).columns)


def wrap(text: str, width: int = WIDE, most: int | None = None) -> str:
    """Return lines of at most ``width`` columns, all but the first indented; a figure keeps its unit and its interval.

    ``most``: lines, the last of which ends in … where that is too few."""
    glued = _WITHIN.sub(_GLUE, text)
    lines = textwrap.fill(glued, width, subsequent_indent="  ", max_lines=most, placeholder=" …")
    return lines.replace(_GLUE, " ")


def wrap_command(command: str, width: int = WIDE) -> str:
    """Return a command line in lines of at most ``width`` columns that a shell joins again; a longer word has a line of
    its own."""
    if len(command) <= width:
        return command
    lines = [""]
    for word in _WORD.findall(command):
        if lines[-1] and len(lines[-1]) + len(word) + len("  \\") > width:
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n".join(lines)
