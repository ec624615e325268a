"""CPU by stack in a phase of a traced run: stacks with their seconds, folded and packed. Pure."""

from __future__ import annotations

import base64
import binascii
import codecs
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kit.core.codec import Amount, Count, UnreadableError

#: First elements of a stack: the part of the machine that it belongs to.
WORKLOAD = "workload"  # the arm's own processes
FUSE = "FUSE daemon"
LOOP = "loop device"
KERNEL = "kernel threads"
ENGINE = "engine"  # dockerd, containerd, their shims and runtimes
KIT = "kit and tracing"
REST = "rest of the machine"
PARTS = (WORKLOAD, FUSE, LOOP, KERNEL, ENGINE, KIT, REST)
#: Parts that no arm causes; parts with the same work in every run, while others work when they find time.
OUTSIDE = (KIT, REST)
STEADY = (WORKLOAD, FUSE)

#: A part, the process, then functions, the outermost first.
Stack = tuple[str, ...]

_UNIT = 1e-6  # seconds, of the weights that are stored
_MOST = 256 << 20  # bytes of a profile's stacks: what is more is no profile of the kit's
_CHUNK = 1 << 20  # bytes that are unpacked at once, and of a line
_MOST_STACKS, _MOST_NAMES = 1_000_000, 4_000_000  # of a profile; of functions in all stacks: more are cut off
_MOST_LETTERS, _OBJECT = 48 << 20, 60  # of names that differ; what each takes besides
_DIGITS = 18  # of a stack's microseconds
_DEEPEST = 300  # names of a stack: a kernel hands over 127 functions of its own, and as many of a program's


@dataclass(frozen=True)
class CpuProfile:
    """CPU of the whole machine, but for its idle loops, in one phase of a traced run."""

    event: str  # what was sampled
    samples: Count  # how many stacks were taken
    lost: Count  # how many more the kernel could not hand over
    seconds: Amount  # CPU that the stacks represent
    folded: str  # the stacks, as ``fold`` writes them, compressed

    @property
    def quantum(self) -> float:
        """Return the seconds that one sample represents."""
        return self.seconds / self.samples if self.samples else 0.0

    def stacks(self) -> dict[Stack, float]:
        """Return the seconds of each stack. Raises UnreadableError if it is not the kit's."""
        return _unfolded(_unpacked(self.folded))


def make_profile(event: str, stacks: Mapping[Stack, float], samples: int, lost: int) -> CpuProfile:
    return CpuProfile(event, samples, lost, sum(stacks.values()), _pack(fold(stacks)))


def fold(stacks: Mapping[Stack, float]) -> str:
    """Return a line for each stack: its names joined by semicolons, and its microseconds. stackcollapse-perf.pl writes
    this form, and flame graph programs read it (Gregg, The Flame Graph, CACM 59(6), 2016)."""
    many = sum(map(len, stacks)) > _MOST_NAMES
    deepest = max(1, _MOST_NAMES // len(stacks)) if many else _DEEPEST
    lines = (f"{';'.join(map(_name, stack[:deepest]))} {round(seconds / _UNIT)}\n" for stack, seconds in stacks.items())
    return "".join(sorted(lines))


def _unfolded(lines: Iterable[str]) -> dict[Stack, float]:
    stacks: dict[Stack, float] = {}
    interned: dict[str, str] = {}  # each name is held once
    names = letters = 0  # in all; of names that differ
    for count, line in enumerate(lines, 1):
        stack, _, weight = line.rstrip("\n").rpartition(" ")
        depth = stack.count(";") + 1
        names += depth
        good = stack and weight.isascii() and weight.isdecimal() and len(weight) <= _DIGITS and depth <= _DEEPEST
        if not good or names > _MOST_NAMES or count > _MOST_STACKS:
            raise UnreadableError(f"a profile holds the line {line[:60]!r}", "use the version of the kit that wrote it")
        before = len(interned)
        key = tuple([interned.setdefault(name, name) for name in stack.split(";")])
        letters += (len(interned) > before) * (len(stack) + _OBJECT * (len(interned) - before))
        if letters > _MOST_LETTERS:
            raise UnreadableError("a profile names more functions than any", "use the version of the kit that wrote it")
        stacks[key] = stacks.get(key, 0.0) + int(weight) * _UNIT
    return stacks


def _name(text: str) -> str:
    """Return the name without semicolons and line ends, which have another meaning there."""
    return " ".join(text.replace(";", ":").split()) or "-"


def _pack(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(errors="replace"), 9)).decode()


def _unpacked(packed: str) -> Iterator[str]:
    """Yield the lines one by one: together they may be a thousand times as long as their packed form."""
    reader, partial, size = zlib.decompressobj(), "", 0
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    try:
        data = base64.b64decode(packed, validate=True)
        while data and not reader.eof:
            plain = reader.decompress(data, _CHUNK)
            data, size = reader.unconsumed_tail, size + len(plain)
            *lines, partial = (partial + decoder.decode(plain)).split("\n")
            if size > _MOST or len(partial) > _CHUNK:
                raise UnreadableError("a profile is larger than any", "use the version of the kit that wrote it")
            yield from lines
    except (ValueError, binascii.Error, zlib.error) as error:
        fix = "use the version of the kit that wrote it"
        raise UnreadableError(f"a profile can't be unpacked: {error}", fix) from None
    if not reader.eof or partial:
        raise UnreadableError("a profile is cut off", "use the version of the kit that wrote it")
