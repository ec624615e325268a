"""The tracer of system calls: by control group, in every process of the arm, including children and daemons."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kit.core.errors import KitError, RunError
from kit.extra.tracing.bpftrace import Maps, attached, program, with_tracefs
from kit.extra.tracing.functions import function_probes, function_rows
from kit.extra.tracing.names import call_name, call_number, error_name, opcode_name
from kit.host.cgroup.cgroup import UNIFIED, Cgroup, hierarchies
from kit.host.command import require, run
from kit.model.sample import CALL, FAULT, FUSE, LOST, NOT_RECORDED, PAGE_FAULT, Call, Phase
from kit.session.measure.tracer import Level, Traced, existing

_NS = 1e9
_MOUNT = "run mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"


@dataclass
class Recorded:
    """The rows of one phase."""

    calls: tuple[Call, ...] = ()

    def add_to(self, phase: Phase) -> Phase:
        return replace(phase, calls=(*phase.calls, *self.calls))


class CallTracer:
    """Counts and times system calls; requests to FUSE daemons if ``fuse`` says that tracepoints exist; and the kernel's
    ``functions``."""

    def __init__(self, fuse: bool, functions: Sequence[str] = ()) -> None:
        self._names, self._functions = _programs(fuse), functions

    @contextmanager
    def around(self, subject: Traced) -> Iterator[Recorded]:
        text = f"{_text(self._names, _membership(subject.group))}\n{function_probes(self._functions)}"
        recording = Recorded()
        with attached(text, subject.scratch, existing(subject.session)) as maps:
            yield recording
        recording.calls = (*rows(maps), *function_rows(maps))


def find_call_tracer(scratch: Path, session: Cgroup, functions: Sequence[str] = ()) -> tuple[CallTracer | None, Level]:
    """Return the tracer, or the reason why it does not work. The test attaches the program once, to no process.
    ``scratch`` and ``session`` as in Traced. ``functions``: functions to record, if they can be probed."""
    try:
        require("bpftrace")
        events = with_tracefs() / "events"
        if UNIFIED not in hierarchies():
            return None, Level("calls", False, "no cgroup v2 hierarchy is mounted", _MOUNT)
        fuse = (events / "fuse").is_dir()
        names = _programs(fuse)
        with attached(_text(names, ""), scratch, existing(session)):
            pass
        version = run(["bpftrace", "--version"]).strip()
        return CallTracer(fuse, functions), Level(
            "calls", True, f"{version}{'' if fuse else ', without requests to FUSE daemons'}"
        )
    except KitError as error:
        return None, Level("calls", False, error.message, error.hint)


def _text(names: tuple[str, ...], listed: str) -> str:
    return program(names, {"LISTED": listed, "OPENAT": str(call_number("openat"))})


def _programs(fuse: bool) -> tuple[str, ...]:
    return ("calls", "fuse") if fuse else ("calls",)


def _membership(group: Cgroup | None) -> str:
    """Return the ids of the counted groups: the arm's group and all below it, by v2 ids, the inodes of their
    directories. Raises RunError for an arm without such a group."""
    path = group.paths.get(UNIFIED) if group else None
    if path is None or not path.is_dir():
        raise RunError("the arm is in no group of cgroup v2", _MOUNT)
    ids = [Path(directory).stat().st_ino for directory, _, _ in os.walk(path)]
    return " ".join(f"@group[(uint64){number}] = 1;" for number in ids)


def rows(maps: Maps) -> Iterator[Call]:
    """Return a program's maps as rows; missed entries are a row of their own."""
    errors: dict[int, list[tuple[str, int]]] = {}
    for (number, value), count in maps.of("errors", 2).items():
        errors.setdefault(number, []).append((error_name(-value), count))
    recorded = 0
    for (number,), spread in maps.histogram("spread").items():
        count = sum(many for _, many in spread)
        recorded += count
        yield Call(
            call_name(number), count, *_seconds(maps, number), histogram=spread,
            errors=tuple(sorted(errors.get(number, ()))), kind=CALL,
        )  # fmt: skip
    yield from _requests(maps)
    faults = maps.number("faults")
    if faults:
        yield Call(PAGE_FAULT, faults, (waited := maps.number("fault") / _NS), waited, kind=FAULT)
    lost = maps.number("entered") - recorded - len(maps.of("since"))
    if lost:
        yield Call(NOT_RECORDED, abs(lost), kind=LOST)


def _seconds(maps: Maps, number: int) -> tuple[float, float, float, float, float]:
    whole, disk, daemon, slept, ready = (
        maps.of(name).get((number,), 0) / _NS for name in ("took", "disk", "daemon", "slept", "ready_for")
    )
    return whole, disk, daemon, slept, ready


def _requests(maps: Maps) -> Iterator[Call]:
    errors: dict[int, list[tuple[str, int]]] = {}
    for (opcode, value), count in maps.of("fuse_errors", 2).items():
        errors.setdefault(opcode, []).append((error_name(-value), count))
    for (opcode,), spread in maps.histogram("fuse_spread").items():
        yield Call(
            opcode_name(opcode), sum(many for _, many in spread), maps.of("fuse_took").get((opcode,), 0) / _NS,
            histogram=spread, errors=tuple(sorted(errors.get(opcode, ()))), kind=FUSE,
        )  # fmt: skip
