"""The output of an image build by BuildKit (``--progress=plain``), each line with its time: see build_steps.

BuildKit prints its progress about seven times a second, so a part's beginning is known to 0.15 s. The beginning and end
of the command are exact: the timer states them."""

from __future__ import annotations

import re

from kit.parsers.build_steps import CONTEXT, EXPORT, LOOKUP, METADATA, instruction_kind, parts
from kit.parsers.figure import Reported
from kit.parsers.task import BuildTask
from kit.parsers.tried import Tried

TRIED = (Tried("BuildKit", ("of Docker 20.10",)),)
_STEP = re.compile(r"#\d+ \[(?P<where>[^\]]*)\] (?P<instruction>.*)")
_EXPORT = re.compile(r"#\d+ exporting to ")
_CACHED = re.compile(r"#\d+ CACHED")


def parse_buildkit(text: str) -> tuple[Reported | BuildTask, ...]:
    """Return the build's parts in their order, and the size of its image. Raises ValueError for an output without an
    end, or without a step in a known form."""
    return parts(text, _begins, "BuildKit")


def _begins(line: str) -> str | None:
    if _CACHED.fullmatch(line):
        return LOOKUP
    if _EXPORT.match(line):
        return EXPORT
    step = _STEP.match(line)
    if not step:
        return None
    kind = instruction_kind(step["instruction"])
    return CONTEXT if kind == METADATA else kind
