"""Facts of a session: what is recorded beside its figures, each of a kind. Who records one makes it by its kind, who
reads asks by kind; the texts are for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

#: Parts of a driver's status that say how it is filled and named, not what it is.
_PASSING = r"(Pool Name|Zpool|Parent Dataset|[^:]*\b(Space|file|Count)\b[^:]*):"


@dataclass(frozen=True)
class Kind:
    """What facts of one kind have in common.

    ``key``: what they are called in stored sessions and in reports; it is never reworded. ``{}`` stands for what one is
    of, which matches ``of``. ``volatile``: differs from session to session, or no figure depends on it: it begins no
    series. ``passing``: parts of the text, between "; ", that history leaves out. ``reworded``: pattern and replacement
    for what earlier kits said, so that other words begin no series either.
    """

    key: str
    volatile: bool = False
    of: str = ".+"
    passing: str = ""
    reworded: tuple[tuple[str, str], ...] = ()

    def fact(self, text: str, of: str = "") -> Fact:
        return Fact(self.key.replace("{}", of), text, self, of)

    def text(self, facts: Mapping[str, str], default: str = "", of: str = "") -> str:
        """What stored facts say of it."""
        return facts.get(self.key.replace("{}", of), default)

    def find(self, facts: Mapping[str, str]) -> list[Fact]:
        """Those of stored facts that are of this kind."""
        return [fact for fact in read_facts(facts) if fact.kind is self]

    def match(self, key: str) -> re.Match[str] | None:
        return self._pattern.fullmatch(key)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        before, named, after = self.key.partition("{}")
        return re.compile(f"{re.escape(before)}({self.of if named else ''}){re.escape(after)}", re.DOTALL)

    def compared(self, text: str, session: str) -> str:
        """A text without what is of one session alone: names of pools, files and loop devices, space in use, the order
        in which a driver tells its status."""
        if session in text:
            return _compared(self.reworded, self.passing, text, session)
        return _compared(self.reworded, self.passing, text)  # what most sessions of a history say in the same words


@lru_cache(4096)
def _compared(reworded: tuple[tuple[str, str], ...], passing: str, text: str, session: str = "") -> str:
    for pattern, words in reworded:
        text = re.sub(pattern, words, text)
    if session:
        text = re.sub(rf"(kit-)?{re.escape(session)}[\w-]*", "…", text)
    text = re.sub(r"/dev/loop\d+", "/dev/loop", text)
    parts = text.split("; ")
    return "; ".join(sorted(part for part in parts if not (passing and re.match(passing, part))))


@dataclass(frozen=True)
class Fact:
    """``of``: what of several it is about, an arm or a filesystem for example."""

    key: str
    text: str
    kind: Kind
    of: str = ""

    @property
    def volatile(self) -> bool:
        return self.kind.volatile


def stored(facts: Iterable[Fact]) -> dict[str, str]:
    """As sessions keep them; of one key the last."""
    return {fact.key: fact.text for fact in facts}


def read_facts(facts: Mapping[str, str]) -> Iterator[Fact]:
    """What a session has kept, of whichever kit."""
    for key, text in facts.items():
        kind, of = _kind_of(key)
        yield Fact(key, text, kind, of)


@lru_cache(4096)
def _kind_of(key: str) -> tuple[Kind, str]:
    found = ((kind, match[1]) for kind in KINDS if (match := kind.match(key)))
    return next(found, (OTHER, ""))


# The machine
MACHINE = Kind("machine", volatile=True)  # machines are told apart by the rest
KERNEL = Kind("kernel")
DISTRIBUTION = Kind("distribution")
CPU = Kind("cpu")
VIRTUALIZATION = Kind("virtualization")
MEMORY = Kind("memory")
CGROUPS = Kind("cgroups")
OVERLAY = Kind("overlay")
CPU_SOURCE = Kind("machine CPU from", volatile=True)
DEVICE = Kind("identity of the {}", of="(?:thin )?device")

# A guest, and the machine that it ran on
GUEST = Kind("guest")
ACCELERATOR = Kind("accelerator")
HOST_KERNEL = Kind("host kernel")
HOST_CPU = Kind("host cpu")

# The machines of a fleet that it ran on
CLASS = Kind("class")
WORKER = Kind("worker")  # what the fleet calls the machine; of several, all of them: each has series of its own
ROUNDS_OF = Kind("rounds of {}", of=r"\S+", volatile=True)  # numbers of the rounds that a machine made
TOGETHER = Kind("measured together")  # workers of one machine, which disturb each other

# What was asked for
CACHES = Kind("caches")
ROUNDS = Kind("rounds", volatile=True)
SEED = Kind("seed", volatile=True)
FRESH = Kind("fresh filesystem")
PARAMETERS = Kind("parameters")
BURST_RULE = Kind("burst rule", volatile=True)
RUN_ORDER = Kind("run order")  # interleaved or sequential
SLICE = Kind("slice", volatile=True)  # length of the time slices
RUN_ORDER_WHY = Kind("why run order", volatile=True)
IMAGE = Kind("image", volatile=True)  # told by its digest
LOAD = Kind("background load")

#: What figures of different machines must have in common before they are set beside each other.
ASKED = (CACHES, FRESH, PARAMETERS, LOAD, RUN_ORDER)

# What was made ready
FILESYSTEM = Kind("filesystem {}", of=r"\S+")
UNCONFIRMED = Kind("unconfirmed options of {}")  # mount options that the kernel does not show
COMPILER = Kind("compiler of {}")
RUNS = Kind("{} runs", of=r"\S+")  # with less rights than usual
RUNNING_ENGINE = Kind("running {}", of=r"\S+")  # the user's own
RUNNING_STATUS = Kind("{} of it", of=r"\S+", passing=_PASSING)
DRIVER_STATUS = Kind("{}", of=r"\S+(?: of \S+)? on \S+", passing=_PASSING)
PROGRAM = Kind("{}", of=r"[\w.-]+(?: of \S+)?")  # its version

# The session's course: why figures are lacking, which arm's flagged runs are not made again, why it ended
NO_PSI = Kind("no psi")
NO_CGROUP_CPU = Kind("no cgroup CPU")
NO_CGROUP_CPU_ON_HOST = Kind("no cgroup CPU on host arms")
IDLE = Kind("idle CPU", volatile=True)
NO_ELSEWHERE = Kind("no CPU elsewhere", volatile=True)
BUSY_BEFORE = Kind("busy before round {}", of=r"\d+", volatile=True)  # "1.99 of 2 CPUs"
NO_REPEATS = Kind("no repeats of {}", volatile=True)
STOPPED = Kind("stopped", volatile=True)
TRACING = Kind("traced", volatile=True)
NO_TRACING = Kind("not traced", volatile=True)

#: Where a key fits several, the first counts: exact ones, then those that begin or end like no other.
KINDS = (
    MACHINE, KERNEL, DISTRIBUTION, CPU, VIRTUALIZATION, MEMORY, CGROUPS, OVERLAY, CPU_SOURCE,
    CLASS, WORKER, TOGETHER,
    GUEST, ACCELERATOR, HOST_KERNEL, HOST_CPU, CACHES, ROUNDS, SEED, FRESH, PARAMETERS, BURST_RULE,
    RUN_ORDER, SLICE, RUN_ORDER_WHY, IMAGE, LOAD, NO_PSI, NO_CGROUP_CPU, NO_CGROUP_CPU_ON_HOST, IDLE, NO_ELSEWHERE,
    STOPPED, TRACING, NO_TRACING,
    DEVICE, ROUNDS_OF, BUSY_BEFORE, FILESYSTEM, UNCONFIRMED, COMPILER, NO_REPEATS, RUNS, RUNNING_ENGINE, RUNNING_STATUS,
    DRIVER_STATUS, PROGRAM,
)  # fmt: skip

#: What a kit of another time, or nobody's, has recorded: it may be the status of a driver.
OTHER = Kind("{}", passing=_PASSING)


def makers(facts: Mapping[str, str]) -> dict[int, str]:
    """The machine that made each round, of a session of several."""
    found = ROUNDS_OF.find(facts)
    return {int(number): fact.of for fact in found for number in fact.text.split(", ") if number.isdecimal()}
