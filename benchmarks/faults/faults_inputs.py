"""Odd input for every parser and message: how many cases ended in an answer, in an error of one line, in anything else.

Each input is drawn in a process of its own, which may take 256 MiB more than at its beginning; a case may take 5 s of
CPU. Cases are drawn from the strategies of tests/fuzz without Hypothesis' engine, which remembers what it has drawn and
takes several times as long as most cases. Each has a random generator of its own: its number draws it again.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis.control import BuildContext
from hypothesis.errors import StopTest, UnsatisfiedAssumption
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.strategies import SearchStrategy

from kit.core.errors import KitError
from tests.fuzz.inputs import BOMBS, INPUTS, Call

SECONDS, BYTES, LONGEST = 5.0, 256 << 20, 400


class TooLongError(Exception):
    pass


@dataclass
class Found:
    """``failed``: by the exception that ended a case, or what is wrong with its error; ``first``: number of the first
    such case."""

    name: str
    cases: int = 0
    refused: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    first: int | None = None
    slowest: float = 0.0  # seconds of CPU
    taken: float = 0.0  # seconds of CPU, with what drawing took
    memory: int = 0  # bytes that the process took at most, more than at its beginning

    def take(self, call: Call, case: Any, number: int = 0) -> None:
        began = time.process_time()
        self.cases += 1
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            call(case)
        except KitError as error:
            self.refused += 1
            if len(error.message) > LONGEST or len(error.message.splitlines()) > 1:
                self._fail("long error", number)
        except Exception as error:  # the figure that is asked for
            self._fail(type(error).__name__, number)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            self.slowest = max(self.slowest, time.process_time() - began)

    def _fail(self, why: str, number: int) -> None:
        self.failed[why] += 1
        if self.first is None:
            self.first = number

    def __str__(self) -> str:
        why = ", ".join(f"{count} {kind}" for kind, count in self.failed.most_common())
        why += f", first case {self.first}" if why else ""
        return (
            f"{self.name:18} {self.cases:8} {self.refused:8} {self.failed.total():7} {self.slowest:10.2f}"
            f" {self.memory / (1 << 20):11.0f} {self.taken:7.0f}  {why}"
        )


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TooLongError


def _measured(found: Found, draw: Callable[[Found], None]) -> Found:
    """Call it with bounded memory, and note what it took."""
    signal.signal(signal.SIGPROF, _too_long)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + BYTES
    Path("/proc/self/clear_refs").write_text("5")  # the peak of its memory is that of its parent
    before = _peak()
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    draw(found)
    found.taken = time.process_time()
    found.memory = _peak() - before
    return found


def _peak() -> int:
    """Bytes of memory that this process has had at most."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def _draw(name: str, cases: int, first: int) -> Found:
    strategy, call = INPUTS[name]

    def each(found: Found) -> None:
        for number in range(first, first + cases):
            with suppress(StopTest, UnsatisfiedAssumption):  # too large, or none of this kind
                found.take(call, draw_case(strategy, name, number), number)

    return _measured(Found(name), each)


def draw_case(strategy: SearchStrategy[Any], name: str, number: int) -> Any:
    data = ConjectureData(random=random.Random(f"{name}/{number}"))
    with BuildContext(data, wrapped_test=draw_case):
        return data.draw(strategy)


def _burst(name: str) -> Found:
    make, call = BOMBS[name]
    case = make()
    return _measured(Found(f"{name} *"), lambda found: found.take(call, case))


def run(cases: int, names: Sequence[str] = (), jobs: int = 1, first: int = 0) -> bool:
    """Print a table; whether nothing failed."""
    print("input                 cases  refused  failed  slowest s  memory MiB   CPU s")
    total = Found("all")
    chosen = [name for name in INPUTS if not names or name in names]
    for name in chosen:  # what strategies compute once is no case's memory
        draw_case(INPUTS[name][0], name, first)
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        waiting = [pool.apply_async(_draw, (name, cases, first)) for name in chosen]
        waiting += [pool.apply_async(_burst, (name,)) for name in BOMBS if not names or name in names]
        for each in waiting:
            found = each.get()
            print(found, flush=True)
            total.cases += found.cases
            total.refused += found.refused
            total.failed += found.failed
            total.taken += found.taken
            total.slowest = max(total.slowest, found.slowest)
            total.memory = max(total.memory, found.memory)
    print(total)
    print("*: a few kilobytes that become many values")
    return not total.failed
