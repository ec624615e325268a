"""The output of an image build, each line after its time of arrival: Docker's classic builder, podman build and
buildah print the same form. ``kit-…`` lines are the kit's own: of the build's beginning and end, and of its command.

Each part of the build is a task whose kind says what it was for; docs/how-to/measure-an-image-build.md explains them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kit.parsers.figure import Reported
from kit.parsers.task import BuildTask

CONTEXT, METADATA, COPY, START, RUN, COMMIT, LOOKUP, FINISH = (
    "context", "metadata", "copy", "start", "run", "commit", "lookup", "finish",
)  # fmt: skip
_LINE = re.compile(r"(?P<when>\d{1,12}\.\d{1,9}) (?P<text>.*)")
_STEP = re.compile(r"(?:Step|STEP) \d+/\d+ ?: (?P<word>[A-Z]+)(?P<rest>.*)")
_CACHED = re.compile(r"--+> Using cache")
_DONE = re.compile(r"Successfully (?:built|tagged) ")
_MARK = re.compile(r"kit-(?P<what>step|build) (?P<how>began|ended)(?: (?P<when>\d{1,12}\.\d{1,9}))?")
_SIZE = re.compile(r"kit-build size (?P<bytes>\d{1,18})")
#: What a build does from such a mark on.
_FROM = {
    ("build", "began"): CONTEXT, ("step", "began"): RUN, ("step", "ended"): COMMIT, ("build", "ended"): "",
}  # fmt: skip


def parse_build_steps(text: str) -> tuple[Reported | BuildTask, ...]:
    """Return the build's parts in their order, and the size of its image. Raises ValueError for an unfinished
    output."""
    found: list[Reported | BuildTask] = []
    kind, since = "", 0.0
    for when, said in _lines(text):
        size = _SIZE.fullmatch(said)
        if size:
            found.append(Reported("image size", int(size["bytes"]) / 1e6, "MB"))
            continue
        if _CACHED.match(said):
            kind = LOOKUP
            continue
        begins = _begins(said)
        if begins is None:
            continue
        at = _time(said) or when
        if kind:
            found.append(BuildTask(kind, kind, since, max(0.0, at - since)))
        kind, since = begins, at
    if kind or not found:
        raise ValueError("the build's output has no end")
    return tuple(found)


def _lines(text: str) -> Iterator[tuple[float, str]]:
    """Yield the lines with their times; a line without one has that of the line before."""
    when = 0.0
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        when = float(match["when"]) if match else when
        yield when, match["text"] if match else line


def _begins(said: str) -> str | None:
    """Return the kind of part that the line begins, '' at the build's end; None if it begins none."""
    mark = _MARK.fullmatch(said)
    if mark:
        return _FROM[mark["what"], mark["how"]]
    if _DONE.match(said):
        return FINISH
    step = _STEP.match(said)
    if not step:
        return None
    if step["word"] == "RUN":
        return START if "kit-probe" in step["rest"] else COPY
    return COPY if step["word"] == "COPY" else METADATA


def _time(said: str) -> float | None:
    """Return the time that the line itself states."""
    mark = _MARK.fullmatch(said)
    return float(mark["when"]) if mark and mark["when"] else None
