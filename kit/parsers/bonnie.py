"""bonnie++'s CSV line (bon_csv2txt(1)): throughput, operations, latencies. Its first column is the format's version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kit.parsers.figure import LESS, MORE, Reported
from kit.parsers.log_lines import log_lines
from kit.parsers.tried import Tried

TRIED = (Tried("bonnie++", ("2.00a",), ("1.96", "1.97"), "other formats, as 1.03"),)
_KIB = 1024 / 1e6  # KiB/s to MB/s
#: The columns of 1.96 and 1.97, as BonTimer::PrintHeader of bonnie++ names them.
_COLUMNS = (
    "format_version", "bonnie_version", "name", "concurrency", "seed", "file_size", "io_chunk_size",
    "putc", "putc_cpu", "put_block", "put_block_cpu", "rewrite", "rewrite_cpu", "getc", "getc_cpu",
    "get_block", "get_block_cpu", "seeks", "seeks_cpu",
    "num_files", "max_size", "min_size", "num_dirs", "file_chunk_size",
    "seq_create", "seq_create_cpu", "seq_stat", "seq_stat_cpu", "seq_del", "seq_del_cpu",
    "ran_create", "ran_create_cpu", "ran_stat", "ran_stat_cpu", "ran_del", "ran_del_cpu",
    "putc_latency", "put_block_latency", "rewrite_latency", "getc_latency", "get_block_latency", "seeks_latency",
    "seq_create_latency", "seq_stat_latency", "seq_del_latency",
    "ran_create_latency", "ran_stat_latency", "ran_del_latency",
)  # fmt: skip
#: 1.98 has two columns more before putc, which the header that its programs print (1.98, 2.00) lacks.
_FORMATS: Mapping[str, tuple[str, ...]] = {
    "1.96": _COLUMNS,
    "1.97": _COLUMNS,
    "1.98": (*_COLUMNS[:7], "seek_size", "seek_processes", *_COLUMNS[7:]),
}
#: By column: name, factor, unit. Percentages of CPU are ignored: the kit has better ones.
_FIGURES = {
    "putc": ("write, per character", _KIB, "MB/s"),
    "put_block": ("write, block", _KIB, "MB/s"),
    "rewrite": ("rewrite", _KIB, "MB/s"),
    "getc": ("read, per character", _KIB, "MB/s"),
    "get_block": ("read, block", _KIB, "MB/s"),
    "seeks": ("seeks", 1.0, "per s"),
    "seq_create": ("create, sequential", 1.0, "files/s"),
    "seq_stat": ("stat, sequential", 1.0, "files/s"),
    "seq_del": ("delete, sequential", 1.0, "files/s"),
    "ran_create": ("create, random", 1.0, "files/s"),
    "ran_stat": ("stat, random", 1.0, "files/s"),
    "ran_del": ("delete, random", 1.0, "files/s"),
}
_LINE = re.compile(r"(?P<format>[0-9]{1,2}\.[0-9]{2}[a-z]?),[^,\n]{1,20},")
#: 1.03 and older say no version in their line: machine and size, then columns without latencies.
_OLD = re.compile(
    r"^Version +1\.0[0-9]|^[^,\n]{0,60},[0-9]{1,9}[MG](:[0-9a-zA-Z]{1,9})?,([0-9.+]{0,15},){10}", re.MULTILINE
)
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")
_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


def parse_bonnie(text: str) -> tuple[Reported, ...]:
    """Parse the line, or each of several (-x N): ``+++++`` is "too fast to tell", an empty field a test that was not
    run. Raises ValueError without a line, and for the line of a version whose columns are unknown."""
    lines = [line.text for line in log_lines(text) if _LINE.match(line.text)]
    if not lines:
        old = " of a version since 1.96; this one is older" if _OLD.search(text) else ""
        raise ValueError(f"no CSV line of bonnie++{old} in it")
    return tuple(
        figure
        for number, line in enumerate(lines, 1)
        for figure in _figures(_columns(line), f"test {number}: " if len(lines) > 1 else "")
    )


def _columns(line: str) -> dict[str, str]:
    """Return the fields of a line by the columns of its version. Raises ValueError."""
    fields = line.rstrip().split(",")
    columns = _FORMATS.get(fields[0])
    if columns is None:
        raise ValueError(f"bonnie++'s format {fields[0]} has unknown columns: use one of {', '.join(_FORMATS)}")
    if len(fields) != len(columns):
        raise ValueError(f"bonnie++'s line has {len(fields)} columns; format {fields[0]} has {len(columns)}")
    return dict(zip(columns, fields, strict=True))


def _figures(fields: Mapping[str, str], before: str) -> Iterator[Reported]:
    for column, (name, factor, unit) in _FIGURES.items():
        text = fields[column]
        if text and set(text) != {"+"} and not _NUMBER.fullmatch(text):
            raise ValueError(f"{name}: not a number: {text[:40]!r}")
        if text:
            yield Reported(f"{before}{name}", None if text[0] == "+" else float(text) * factor, unit, MORE)
    for column, (name, *_) in _FIGURES.items():
        match = re.fullmatch(r"([0-9]{1,15})(us|ms|s)", fields[f"{column}_latency"])
        if match:
            yield Reported(f"{before}{name}: worst latency", int(match[1]) * _UNITS[match[2]], "µs", LESS)
