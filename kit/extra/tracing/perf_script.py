"""Parses the output of ``perf script`` line by line: samples with their stacks, new processes, and lost records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

#: Fields that are requested, so that every perf prints the same.
FIELDS = "comm,pid,tid,time,period,event,ip,sym,dso"
OPTIONS = ("--show-task-events", "--show-lost-events", "--no-inline", "-F", FIELDS)

#: Limits of every repetition: a program controls its name and symbols, and an unlimited pattern could take hours.
_HEAD = re.compile(
    r"(?P<comm>\S(?:.{0,80}?\S)?)[ \t]{1,80}(?P<pid>-?\d{1,10})/-?\d{1,10}[ \t]{1,80}(?P<time>\d{1,12}\.\d{1,9}):"
    r"[ \t]{1,80}(?P<rest>\S.*)"
)
_FORK = re.compile(r"PERF_RECORD_FORK\((\d{1,10}):\d{1,10}\):\((\d{1,10}):\d{1,10}\)")
_LOST = re.compile(r"PERF_RECORD_LOST\w{0,20}:?[ \t]{1,20}lost (\d{1,18})")
_SAMPLE = re.compile(r"(\d{1,18})[ \t]{1,80}(\S{1,200}):")
_FRAME = re.compile(r"[0-9a-f]{1,16} (?P<name>.*) \((?P<object>[^()]*(?:\([^()]*\))?)\)")
#: Characters of a line: longer text, a name that a program made up, is cut out.
_LONGEST = 64 << 10
#: Objects in brackets that are not modules of the kernel.
_NO_MODULE = ("[unknown]", "[vdso]", "[heap]", "[stack]", "[vsyscall]", "[uprobes]", "[anon")
_UNKNOWN = "[unknown]"
#: Functions of tracing itself: the calls below them are the cost of tracing.
_TRACERS = ("bpf_prog_", "bpf_trace_run", "bpf_trampoline_", "__bpf_trace_", "trace_call_bpf", "perf_trace_",
            "perf_syscall_enter", "perf_syscall_exit", "trace_event_raw_event_")  # fmt: skip
TRACING = "[tracing]"


@dataclass(frozen=True)
class StackSample:
    """``weight``: nanoseconds or cycles, depending on the event. ``functions``: the outermost first."""

    pid: int
    process: str
    time: float  # seconds, monotonic
    event: str
    weight: int
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Fork:
    pid: int
    parent: int
    time: float  # 0 for what was there before


@dataclass(frozen=True)
class Lost:
    """Records that did not fit into the kernel's buffer."""

    count: int


def read_script(lines: Iterable[str]) -> Iterator[StackSample | Fork | Lost]:
    """Yield the records in the order of time. Other lines are skipped."""
    head: re.Match[str] | None = None
    frames: list[tuple[str, str]] = []
    for whole in lines:
        line = whole.strip()
        if len(line) > _LONGEST:
            continue
        frame = _FRAME.fullmatch(line) if head and whole[:1].isspace() else None
        if frame:
            frames.append((frame["name"], frame["object"]))
            continue
        if head:
            yield from _sample(head, frames)
            head = None
        header = _HEAD.fullmatch(line)
        if not header:
            continue
        if born := _FORK.match(header["rest"]):
            yield Fork(int(born[1]), int(born[2]), float(header["time"]))
        elif lost := _LOST.match(header["rest"]):
            yield Lost(int(lost[1]))
        elif _SAMPLE.match(header["rest"]):
            head, frames = header, []
    if head:
        yield from _sample(head, frames)


def _sample(head: re.Match[str], frames: Sequence[tuple[str, str]]) -> Iterator[StackSample]:
    fields = _SAMPLE.match(head["rest"])
    if fields:
        yield StackSample(
            int(head["pid"]), head["comm"], float(head["time"]), fields[2].partition(":")[0], int(fields[1]),
            _functions(frames),
        )  # fmt: skip


def _functions(frames: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the frames, the outermost first. A program without frame pointers has only numbers for its callers:
    unnamed callers become one frame by its program's name, or none."""
    names = [_name(name, where) for name, where in reversed(frames)]
    merged = [name for name, _ in groupby(name for name in names if name != _UNKNOWN)]
    for place, name in enumerate(merged):
        if name.startswith(_TRACERS):
            return (*merged[:place], TRACING)
    return tuple(merged)


def _name(symbol: str, where: str) -> str:
    """Return ``ovl_open`` of the kernel, ``read (libc.so.6)`` of a program, ``[cc1]`` of one without symbols."""
    if _is_kernel(where):
        return _UNKNOWN if symbol == _UNKNOWN else symbol
    program = where.removesuffix(" (deleted)").rpartition("/")[2].strip("[]")
    if symbol == _UNKNOWN:
        return f"[{program}]" if program and program != "unknown" else _UNKNOWN
    return f"{symbol} ({program})"


def _is_kernel(where: str) -> bool:
    """Return whether an object is the kernel or a module: by its name in brackets, or by its file."""
    if where.startswith("["):
        return not where.startswith(_NO_MODULE)
    return where == "/proc/kcore" or re.search(r"(/vmlinux[^/]*|\.ko(\.\w+)?)$", where) is not None
