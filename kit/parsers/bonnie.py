"""bonnie++'s CSV line (format 1.98, bonnie++'s bon_csv2txt(1)): throughput, operations, latencies."""

from __future__ import annotations

import re

from kit.parsers.figure import LESS, MORE, Reported

_KIB = 1024 / 1e6  # KiB/s to MB/s
#: Position in the line: name, factor, unit. Percentages of CPU between them are ignored: the kit has better ones.
_FIGURES = {
    9: ("write, per character", _KIB, "MB/s"),
    11: ("write, block", _KIB, "MB/s"),
    13: ("rewrite", _KIB, "MB/s"),
    15: ("read, per character", _KIB, "MB/s"),
    17: ("read, block", _KIB, "MB/s"),
    19: ("seeks", 1.0, "per s"),
    26: ("create, sequential", 1.0, "files/s"),
    28: ("stat, sequential", 1.0, "files/s"),
    30: ("delete, sequential", 1.0, "files/s"),
    32: ("create, random", 1.0, "files/s"),
    34: ("stat, random", 1.0, "files/s"),
    36: ("delete, random", 1.0, "files/s"),
}
_LATENCIES = (
    "write, per character", "write, block", "rewrite", "read, per character", "read, block", "seeks",
    "create, sequential", "stat, sequential", "delete, sequential", "create, random", "stat, random", "delete, random",
)  # fmt: skip
_FIRST_LATENCY = 38
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")
_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


def parse_bonnie(text: str) -> tuple[Reported, ...]:
    """Parse the line: ``+++++`` is "too fast to tell", an empty field a test that was not run. Raises ValueError
    without a line."""
    lines = [line for line in text.splitlines() if re.match(r"1\.9\d,", line)]
    if not lines:
        raise ValueError("no CSV line of bonnie++ in it")
    fields = lines[-1].split(",")
    found = []
    for index, (name, factor, unit) in _FIGURES.items():
        text = fields[index] if index < len(fields) else ""
        if text and set(text) != {"+"} and not _NUMBER.fullmatch(text):
            raise ValueError(f"{name}: not a number: {text[:40]!r}")
        if text:
            found.append(Reported(name, None if text[0] == "+" else float(text) * factor, unit, MORE))
    for index, name in enumerate(_LATENCIES, _FIRST_LATENCY):
        match = re.fullmatch(r"([0-9]{1,15})(us|ms|s)", fields[index]) if index < len(fields) else None
        if match:
            found.append(Reported(f"{name}: worst latency", int(match[1]) * _UNITS[match[2]], "µs", LESS))
    return tuple(found)
