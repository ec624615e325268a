"""Where the CPU of a phase of a traced run went: stacks with their seconds, folded and packed. Pure."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from kit.core.codec import Amount, Count, UnreadableError

#: What a stack begins with: the part of the machine that it belongs to.
WORKLOAD = "workload"  # the arm's own processes
FUSE = "FUSE daemon"
LOOP = "loop device"
KERNEL = "kernel threads"
ENGINE = "engine"  # dockerd, containerd, their shims and runtimes
KIT = "kit and tracing"
REST = "rest of the machine"
PARTS = (WORKLOAD, FUSE, LOOP, KERNEL, ENGINE, KIT, REST)
#: What no arm is the reason of; and what does the same in every run, where other parts do as they find time.
OUTSIDE = (KIT, REST)
STEADY = (WORKLOAD, FUSE)

#: A part, the process, then functions, the outermost first.
Stack = tuple[str, ...]

_UNIT = 1e-6  # seconds, of the weights that are stored
_MOST = 256 << 20  # bytes of a profile's stacks: what is more is no profile of the kit's
_DIGITS = 18  # of a stack's microseconds
_DEEPEST = 300  # names of a stack: a kernel hands over 127 functions of its own, and as many of a program's


@dataclass(frozen=True)
class CpuProfile:
    """CPU of the whole machine, but for its idle loops, in one phase of a traced run.

    ``event``: what was sampled. ``samples``: how many stacks were taken, ``lost``: how many more the kernel could not
    hand over. ``seconds``: CPU that the stacks stand for. ``folded``: the stacks, as ``fold`` writes them, compressed.
    """

    event: str
    samples: Count
    lost: Count
    seconds: Amount
    folded: str

    @property
    def quantum(self) -> float:
        """Seconds that one sample stands for."""
        return self.seconds / self.samples if self.samples else 0.0

    def stacks(self) -> dict[Stack, float]:
        """Seconds of each stack. Raises UnreadableError where it is none of the kit's."""
        return unfold(_unpack(self.folded))


def make_profile(event: str, stacks: Mapping[Stack, float], samples: int, lost: int) -> CpuProfile:
    return CpuProfile(event, samples, lost, sum(stacks.values()), _pack(fold(stacks)))


def fold(stacks: Mapping[Stack, float]) -> str:
    """A line for each stack, its names joined by semicolons, and its microseconds: what stackcollapse-perf.pl writes
    and flame graph programs read (Gregg, The Flame Graph, CACM 59(6), 2016)."""
    lines = (
        f"{';'.join(map(_name, stack[:_DEEPEST]))} {round(seconds / _UNIT)}\n" for stack, seconds in stacks.items()
    )
    return "".join(sorted(lines))


def unfold(text: str) -> dict[Stack, float]:
    """Raises UnreadableError."""
    found: dict[Stack, float] = {}
    for line in text.splitlines():
        names, _, weight = line.rpartition(" ")
        if not names or not weight.isdecimal() or len(weight) > _DIGITS or names.count(";") >= _DEEPEST:
            raise UnreadableError(f"a profile holds the line {line[:60]!r}", "made by another kit?")
        stack = tuple(names.split(";"))
        found[stack] = found.get(stack, 0.0) + int(weight) * _UNIT
    return found


def _name(text: str) -> str:
    """Semicolons and line ends have another meaning there."""
    return " ".join(text.replace(";", ":").split()) or "-"


def _pack(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(errors="replace"), 9)).decode()


def _unpack(packed: str) -> str:
    try:
        reader = zlib.decompressobj()
        text = reader.decompress(base64.b64decode(packed, validate=True), _MOST)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise UnreadableError(f"a profile can't be unpacked: {error}", "made by another kit?") from None
    if reader.unconsumed_tail or not reader.eof:
        raise UnreadableError("a profile is cut off, or larger than any", "made by another kit?")
    return text.decode(errors="replace")
