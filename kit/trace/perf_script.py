"""What ``perf script`` prints, read line by line: samples with their stacks, processes as they come, what was lost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

#: What it is asked for, so that every perf prints the same.
FIELDS = "comm,pid,tid,time,period,event,ip,sym,dso"
OPTIONS = ("--show-task-events", "--show-lost-events", "--no-inline", "-F", FIELDS)

_HEAD = re.compile(r"\s*(?P<comm>.*?)\s+(?P<pid>-?\d+)/-?\d+\s+(?P<time>\d+\.\d+):\s+(?P<rest>.*?)\s*")
_FORK = re.compile(r"PERF_RECORD_FORK\((\d+):\d+\):\((\d+):\d+\)")
_LOST = re.compile(r"PERF_RECORD_LOST\w*:?\s+lost (\d+)")
_SAMPLE = re.compile(r"(\d+)\s+(\S+):")
_FRAME = re.compile(r"\s+[0-9a-f]+ (?P<name>.*) \((?P<object>[^()]*(?:\([^()]*\))?)\)\s*")
#: Objects in brackets that are no modules of the kernel's.
_NO_MODULE = ("[unknown]", "[vdso]", "[heap]", "[stack]", "[vsyscall]", "[uprobes]", "[anon")
_UNKNOWN = "[unknown]"
#: Functions of tracing itself: what they call is the price of looking.
_TRACERS = ("bpf_prog_", "bpf_trace_run", "bpf_trampoline_", "__bpf_trace_", "trace_call_bpf", "perf_trace_",
            "perf_syscall_enter", "perf_syscall_exit", "trace_event_raw_event_")  # fmt: skip
TRACING = "[tracing]"


@dataclass(frozen=True)
class StackSample:
    """``weight``: nanoseconds or cycles, as the event counts. ``functions``: the outermost first."""

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
    """In the order of time. A line that says nothing of these is passed over."""
    head: re.Match[str] | None = None
    frames: list[tuple[str, str]] = []
    for line in lines:
        frame = _FRAME.fullmatch(line) if head else None
        if frame:
            frames.append((frame["name"], frame["object"]))
            continue
        if head:
            yield from _sample(head, frames)
            head = None
        found = _HEAD.fullmatch(line)
        if not found:
            continue
        if born := _FORK.match(found["rest"]):
            yield Fork(int(born[1]), int(born[2]), float(found["time"]))
        elif lost := _LOST.match(found["rest"]):
            yield Lost(int(lost[1]))
        elif _SAMPLE.match(found["rest"]):
            head, frames = found, []
    if head:
        yield from _sample(head, frames)


def _sample(head: re.Match[str], frames: Sequence[tuple[str, str]]) -> Iterator[StackSample]:
    said = _SAMPLE.match(head["rest"])
    if said:
        yield StackSample(
            int(head["pid"]), head["comm"], float(head["time"]), said[2].partition(":")[0], int(said[1]),
            _functions(frames),
        )  # fmt: skip


def _functions(frames: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The outermost first. A program built without frame pointers leaves no way back to its callers but numbers: what
    has no name there is one frame by its program's, or none."""
    names = [_name(name, where) for name, where in reversed(frames)]
    merged = [name for name, _ in groupby(name for name in names if name != _UNKNOWN)]
    for place, name in enumerate(merged):
        if name.startswith(_TRACERS):
            return (*merged[:place], TRACING)
    return tuple(merged)


def _name(symbol: str, where: str) -> str:
    """``ovl_open`` of the kernel, ``read (libc.so.6)`` of a program, ``[cc1]`` of one without symbols."""
    if _is_kernel(where):
        return _UNKNOWN if symbol == _UNKNOWN else symbol
    program = where.removesuffix(" (deleted)").rpartition("/")[2].strip("[]")
    if symbol == _UNKNOWN:
        return f"[{program}]" if program and program != "unknown" else _UNKNOWN
    return f"{symbol} ({program})"


def _is_kernel(where: str) -> bool:
    """The kernel, or a module: by its name in brackets, or by its file."""
    if where.startswith("["):
        return not where.startswith(_NO_MODULE)
    return where == "/proc/kcore" or re.search(r"(/vmlinux[^/]*|\.ko(\.\w+)?)$", where) is not None
