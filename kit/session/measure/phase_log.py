"""Logs of runs: the output of workloads, of any length. Their beginning and end are kept, and reads are limited in
size."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path
from typing import IO

from kit.model.plan import PlanStep
from kit.parsers import LONGEST

#: Bytes of a run's log that are kept at its beginning, and at its end.
HEAD = TAIL = 8 << 20
#: Maximum bytes of a log, with the line in the middle that reports the cut.
MOST_LOG = HEAD + TAIL + 100
#: Bytes of a phase's output that are read for figures: more than any parser needs.
MOST_REPORT = 4 * LONGEST + 1
#: Characters of a log's name without its ending; longer names are cut.
_LONGEST_NAME = 200
_LAST = 16 << 10
_LINE = 500
_CHUNK = 1 << 20


class PhaseLog:
    """A phase's part of its run's log. ``start``: its position, ``began``: its beginning as Unix time."""

    def __init__(self, logfile: Path) -> None:
        self.logfile = logfile
        self.began = time.time()
        self.output: IO[bytes] = logfile.open("ab", buffering=0)
        self.start = self.output.tell()

    def __enter__(self) -> PhaseLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.output.close()


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines, whatever the length of the file or of a line."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LAST))
        text = file.read(_LAST).decode(errors="replace")
    return [line[:_LINE] for line in text.rstrip().splitlines()[-count:]]


def output_since(path: Path, start: int) -> str:
    """Return the output from the position on; only the beginning of an output that is too long for any parser."""
    with path.open("rb") as file:
        file.seek(start)
        return file.read(MOST_REPORT).decode(errors="replace")


def cut_middle(path: Path, before: int = 0) -> int:
    """Keep the beginning and end of a finished log. A pipe and its reader during the run would cost measured time.
    ``before``: bytes that were cut earlier. Returns the total of cut bytes."""
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
    """Return a file name for the run's log. Names of long swept values are cut: the limit is 255 bytes."""
    whole = f"{'traced-' if step.traced else ''}{step.round:03d}-{step.arm}{'-' if step.point else ''}{step.point}"
    name = re.sub(r"[^\w.@+=~^-]", "-", whole, flags=re.ASCII)
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    return f"{name}.log"
