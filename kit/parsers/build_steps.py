"""The output of an image build, each line after its time of arrival: Docker's classic builder, podman build and
buildah print the same form. ``kit-…`` lines are the kit's own: of the build's beginning and end, and of its command.

Each part of the build is a task of one of the kinds below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from kit.parsers.figure import Reported
from kit.parsers.task import BuildTask
from kit.parsers.tried import Tried

TRIED = (Tried("Docker's classic builder", ("20.10",)), Tried("buildah", ("1.28",)))
CONTEXT = "context"  # the client starts and transfers the build context
METADATA = "metadata"  # FROM, ENV, USER; with BuildKit they are part of CONTEXT
COPY = "copy"  # COPY, with the layer that it makes
START = "start"  # makes and starts the container of the RUN step
RUN = "run"  # the command itself
COMMIT = "commit"  # ends the container, and makes a layer of what it has changed
EXPORT = "export"  # BuildKit makes the image; without Docker it also compresses the layers
LOOKUP = "lookup"  # finds a step in the cache
FINISH = "finish"  # names the image, and ends the client
_LINE = re.compile(r"(?P<when>\d{1,12}\.\d{1,9}) (?P<text>.*)")
_STEP = re.compile(r"(?:Step|STEP) \d+/\d+ ?: (?P<instruction>.*)")
_CACHED = re.compile(r"--+> Using cache")
_DONE = re.compile(r"Successfully (?:built|tagged) ")
_MARK = re.compile(r"kit-(?P<what>step|build) (?P<how>began|ended)(?: (?P<when>\d{1,12}\.\d{1,9}))?")
_SIZE = re.compile(r"kit-build size (?P<bytes>\d{1,18})(?P<compressed> compressed)?")
#: What a build does from such a mark on.
_FROM = {
    ("build", "began"): CONTEXT, ("step", "began"): RUN, ("step", "ended"): COMMIT, ("build", "ended"): "",
}  # fmt: skip


def parse_build_steps(text: str) -> tuple[Reported | BuildTask, ...]:
    """Return the build's parts in their order, and the size of its image. Raises ValueError for an output without an
    end, or without a step in a known form."""
    return parts(text, _begins, "the builder")


def parts(text: str, begins: Callable[[str], str | None], program: str) -> tuple[Reported | BuildTask, ...]:
    """Return the parts of a build. ``begins`` returns the kind of part that a line of the build tool's begins, None if
    it begins none; LOOKUP renames the part that has begun. ``program``: the build tool, for errors. Raises ValueError
    for an output without an end, or without a step in a known form."""
    sizes: list[Reported] = []
    beginnings: list[tuple[float, str]] = []
    recognised = False
    for when, line in _lines(text):
        size = _SIZE.fullmatch(line)
        mark = _MARK.fullmatch(line)
        if size:
            name = "image size, compressed" if size["compressed"] else "image size"
            sizes.append(Reported(name, int(size["bytes"]) / 1e6, "MB"))
        elif mark:
            beginnings.append((float(mark["when"] or when), _FROM[mark["what"], mark["how"]]))
        elif kind := begins(line):
            recognised = recognised or kind not in (EXPORT, FINISH)
            if kind == LOOKUP and beginnings:
                beginnings[-1] = beginnings[-1][0], LOOKUP
            else:
                beginnings.append((when, kind))
    if beginnings and beginnings[-1][1]:
        raise ValueError("the build's output has no end")
    if beginnings and not recognised:
        raise ValueError(f"no step of {program} in a known form")
    return (*_tasks(beginnings), *sizes)


def _tasks(beginnings: list[tuple[float, str]]) -> Iterator[BuildTask]:
    """Yield the parts between these beginnings. A line may arrive late, never early: none begins after the next."""
    times = [when for when, _ in beginnings]
    for place in range(len(times) - 2, -1, -1):
        times[place] = min(times[place], times[place + 1])
    for (began, ended), (_, kind) in zip(pairwise(times), beginnings, strict=False):
        if kind:
            yield BuildTask(kind, kind, began, ended - began)


def _lines(text: str) -> Iterator[tuple[float, str]]:
    """Yield the lines with their times; a line without one has that of the line before."""
    when = 0.0
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        when = float(match["when"]) if match else when
        yield when, match["text"] if match else line


def _begins(line: str) -> str | None:
    if _CACHED.match(line):
        return LOOKUP
    if _DONE.match(line):
        return FINISH
    step = _STEP.match(line)
    return instruction_kind(step["instruction"]) if step else None


def instruction_kind(line: str) -> str:
    """Return the kind of part that an instruction of a Dockerfile begins. A RUN without the timer copies sources."""
    word = line.partition(" ")[0]
    if word == "RUN":
        return START if "kit-probe" in line else COPY
    return COPY if word == "COPY" else METADATA
