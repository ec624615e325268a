"""Facts of a session, recorded beside its figures, each of a kind. Code makes and finds facts by kind; the texts are
for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from kit.core.quantity import NAME

#: Parts of a driver's status that state fill level and names, not its type.
_PASSING = r"(Pool Name|Zpool|Parent Dataset|[^:]*\b(Space|file|Count)\b[^:]*):"


@dataclass(frozen=True)
class Kind:
    """What facts of one kind have in common."""

    #: Their name in stored sessions and in reports, which is never reworded; {} stands for what one is of.
    key: str
    #: Differs from session to session, or no figure depends on it: it begins no series.
    volatile: bool = False
    of: str = ".+"  # pattern of what one is of
    passing: str = ""  # parts of the text, between "; ", that history leaves out

    def fact(self, text: str, of: str = "") -> Fact:
        return Fact(self.key.replace("{}", of), text, self, of)

    def text(self, facts: Mapping[str, str], default: str = "", of: str = "") -> str:
        """Return the text of stored facts of this kind."""
        return facts.get(self.key.replace("{}", of), default)

    def find(self, facts: Mapping[str, str]) -> list[Fact]:
        """Return the stored facts of this kind."""
        return [fact for fact in read_facts(facts) if fact.kind is self]

    def match(self, key: str) -> re.Match[str] | None:
        return self._pattern.fullmatch(key)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        before, placeholder, after = self.key.partition("{}")
        return re.compile(f"{re.escape(before)}({self.of if placeholder else ''}){re.escape(after)}", re.DOTALL)

    def compared(self, text: str, session: str) -> str:
        """Return the text without session-specific parts: names of pools, files and loop devices, used space, the order
        of the driver's status."""
        if session in text:
            return _compared(self.passing, text, session)
        return _compared(self.passing, text)  # what most sessions of a history say in the same words


@lru_cache(4096)
def _compared(passing: str, text: str, session: str = "") -> str:
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
    """Return facts as sessions store them; the last one of each key."""
    return {fact.key: fact.text for fact in facts}


def read_facts(facts: Mapping[str, str]) -> Iterator[Fact]:
    """Return the facts that a session stored, with any kit version."""
    for key, text in facts.items():
        kind, of = _kind_of(key)
        yield Fact(key, text, kind, of)


@lru_cache(4096)
def _kind_of(key: str) -> tuple[Kind, str]:
    matches = ((kind, match[1]) for kind in KINDS if (match := kind.match(key)))
    return next(matches, (OTHER, ""))


# The machine
MACHINE = Kind("machine", volatile=True)  # machines differ by the rest
KERNEL = Kind("kernel")
DISTRIBUTION = Kind("distribution")
CPU = Kind("cpu")
VIRTUALIZATION = Kind("virtualization")
MEMORY = Kind("memory")
CGROUPS = Kind("cgroups")
OVERLAY = Kind("overlay")
CPU_SOURCE = Kind("machine CPU from", volatile=True)
ENERGY_SOURCE = Kind("energy from", volatile=True)
DEVICE = Kind("identity of the {}", of="(?:thin )?device")

# A guest, and the machine that it ran on
GUEST = Kind("guest")
ACCELERATOR = Kind("accelerator")
HOST_KERNEL = Kind("host kernel")
HOST_CPU = Kind("host cpu")

# The machines of a fleet that ran the session
CLASS = Kind("class")
WORKER = Kind("worker")  # what the fleet calls the machine; of several, all of them: each has series of its own
SEVERAL = ", "  # separates the names of several machines
ROUNDS_OF = Kind("rounds of {}", of=r"\S+", volatile=True)  # numbers of the rounds that a machine made
MACHINE_OF = Kind("machine of {}", of=r"\S+", volatile=True)  # the machine's id, by the name of its worker
FLEET = Kind("fleet", volatile=True)  # options that name the fleet of a shared session, for the command that resumes it
TOGETHER = Kind("measured together")  # workers of one machine, which disturb each other

# Requested settings
CACHES = Kind("caches")
ROUNDS = Kind("rounds", volatile=True)
DEFAULT_REFERENCE = Kind("default reference", volatile=True)  # the arm that others are ranked against, if it ran
SEED = Kind("seed", volatile=True)
FRESH = Kind("fresh filesystem")
PARAMETERS = Kind("parameters")
DISTURBANCE_RULE = Kind("disturbance rule", volatile=True)
RUN_ORDER = Kind("run order")  # interleaved or sequential
SLICE = Kind("slice", volatile=True)  # length of the time slices
RUN_ORDER_WHY = Kind("why run order", volatile=True)
IMAGE = Kind("image", volatile=True)  # its digest identifies it
LOAD = Kind("background load")

#: Conditions that must agree before figures of different machines are compared.
ASKED = (CACHES, FRESH, PARAMETERS, LOAD, RUN_ORDER)

# What was built, and the user's own names for it: histories name those that change with a penalty
COMMIT = Kind("source commit", volatile=True)
CI_COMMIT = Kind("CI commit", volatile=True)
LABEL = Kind("label {}", of=r"[\w.-]+", volatile=True)
COMMAND = Kind("command {}", of=NAME, volatile=True)  # a digest identifies it
REVISION = Kind("source commit of {}", of=NAME, volatile=True)
LEFT_OUT = Kind("left out of {}", of=NAME, volatile=True)  # what a checkout of the commit has besides
VERSIONS = (COMMIT, CI_COMMIT, LABEL, REVISION)
KEPT = Kind("kept", volatile=True)  # why an old session was not removed

# Inputs, images and other materials
FILESYSTEM = Kind("filesystem {}", of=r"\S+")
UNCONFIRMED = Kind("unconfirmed options of {}")  # mount options that the kernel does not show
COMPILER = Kind("compiler of {}")
RUNS = Kind("{} runs", of=r"\S+")  # with less rights than usual
RUNNING_ENGINE = Kind("running {}", of=r"\S+")  # the user's own
RUNNING_STATUS = Kind("{} of it", of=r"\S+", passing=_PASSING)
DRIVER_STATUS = Kind("{}", of=r"\S+(?: of \S+)? on \S+", passing=_PASSING)
PROGRAM = Kind("{}", of=r"[\w.-]+(?: of \S+)?")  # its version

# Course of the session: why figures are missing, which arm's flagged runs are not rerun, why it ended
NO_PSI = Kind("no psi")
NO_DIRTIED = Kind("no dirtied bytes on {}", of=r"\S+", volatile=True)
NO_SWITCHES = Kind("no voluntary switches", volatile=True)
NO_CGROUP_CPU = Kind("no cgroup CPU")
NO_CGROUP_CPU_ON_HOST = Kind("no cgroup CPU on host arms")
IDLE = Kind("idle CPU", volatile=True)
NO_OUTSIDE_CPU = Kind("no outside CPU", volatile=True)
BUSY_BEFORE = Kind("busy before round {}", of=r"\d+", volatile=True)  # "1.99 of 2 CPUs"
NO_RERUN = Kind("no rerun of {}", volatile=True)
STOPPED = Kind("stopped", volatile=True)
TRACING = Kind("traced", volatile=True)
NO_TRACING = Kind("not traced", volatile=True)

#: If a key fits several kinds, the first counts: exact keys, then those with a distinct beginning or end.
KINDS = (
    MACHINE, KERNEL, DISTRIBUTION, CPU, VIRTUALIZATION, MEMORY, CGROUPS, OVERLAY, CPU_SOURCE, ENERGY_SOURCE,
    CLASS, WORKER, TOGETHER, MACHINE_OF, FLEET,
    GUEST, ACCELERATOR, HOST_KERNEL, HOST_CPU, CACHES, ROUNDS, DEFAULT_REFERENCE, SEED, FRESH, PARAMETERS,
    DISTURBANCE_RULE,
    RUN_ORDER, SLICE, RUN_ORDER_WHY, IMAGE, LOAD, NO_PSI, NO_CGROUP_CPU, NO_CGROUP_CPU_ON_HOST, IDLE, NO_OUTSIDE_CPU,
    NO_DIRTIED, NO_SWITCHES, STOPPED, TRACING, NO_TRACING, COMMIT, CI_COMMIT, LABEL, KEPT, COMMAND, REVISION, LEFT_OUT,
    DEVICE, ROUNDS_OF, BUSY_BEFORE, FILESYSTEM, UNCONFIRMED, COMPILER, NO_RERUN, RUNS, RUNNING_ENGINE, RUNNING_STATUS,
    DRIVER_STATUS, PROGRAM,
)  # fmt: skip

#: For unknown facts, from another kit version for example: they may be the status of a driver.
OTHER = Kind("{}", passing=_PASSING)


def built_commit(facts: Mapping[str, str]) -> str:
    """Return the commit of the sources that a session built, else of its CI job; '' if it is unknown."""
    return COMMIT.text(facts) or CI_COMMIT.text(facts)


def makers(facts: Mapping[str, str]) -> dict[int, str]:
    """Return the machine that made each round of a session on several machines."""
    round_facts = ROUNDS_OF.find(facts)
    return {int(number): fact.of for fact in round_facts for number in fact.text.split(", ") if number.isdecimal()}


def machines_by_worker(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the ids of the machines of a session on several workers; several workers may have one machine."""
    return {fact.of: fact.text for fact in MACHINE_OF.find(facts)}
