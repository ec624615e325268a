"""Logs of runs: what workloads print, a file as long as they make it. Its ends are kept, and never more is read than
fits."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from kit.model.plan import PlanStep
from kit.parsers import LONGEST

#: Bytes of a run's log that are kept: from its beginning, and to its end.
HEAD = TAIL = 8 << 20
#: Bytes of the longest, with the line in the middle that says what is left out.
MOST_LOG = HEAD + TAIL + 100
#: Bytes of a phase's output that are read for figures: more than a parser takes.
MOST_REPORT = 4 * LONGEST + 1
#: Characters of a log's name but its ending, before one that is longer is cut.
_LONGEST_NAME = 200
_LAST = 16 << 10
_LINE = 500
_CHUNK = 1 << 20


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines, whatever the length of the file or of a line."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LAST))
        text = file.read(_LAST).decode(errors="replace")
    return [line[:_LINE] for line in text.rstrip().splitlines()[-count:]]


def output_since(path: Path, start: int) -> str:
    """What was written from the position on; of what is too long for any parser, its beginning."""
    with path.open("rb") as file:
        file.seek(start)
        return file.read(MOST_REPORT).decode(errors="replace")


def cut_middle(path: Path, before: int = 0) -> int:
    """Keep the ends of a log that no one writes to any more. While it is written nothing may stand between a command
    and its file: a pipe and its reader would cost time that is measured. ``before``: bytes that were cut out of it
    earlier. Returns how many there are now."""
    size = path.stat().st_size if path.exists() else 0
    cut = before + size - HEAD - TAIL
    mark = f"\n[… {cut >> 20} MiB cut out …]\n".encode()
    if size <= HEAD + TAIL + len(mark):
        return before
    with path.open("r+b") as file:
        file.seek(HEAD)
        file.write(mark)
        target = HEAD + len(mark)
        for source in range(size - TAIL, size, _CHUNK):
            file.seek(source)
            part = file.read(min(_CHUNK, size - source))
            file.seek(target)
            target += file.write(part)
        file.truncate(target)
    return cut


def log_name(step: PlanStep) -> str:
    """A file name for the run's log. Long ones, of swept values, are cut: a name has 255 bytes."""
    whole = f"{'traced-' if step.traced else ''}{step.block:03d}-{step.arm}{'-' if step.point else ''}{step.point}"
    name = re.sub(r"[^\w.@+=-]", "-", whole, flags=re.ASCII)
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    return f"{name}.log"
