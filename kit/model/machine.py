"""A machine of a fleet, as its worker describes it, and the selection of a session's machines. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kit.core.codec import Count, Whole
from kit.core.errors import MachineError, UsageError
from kit.core.quantity import size
from kit.model.arm import Arm
from kit.model.default_driver import Docker, lacking


@dataclass(frozen=True)
class Member:
    """One machine."""

    name: str
    kind: str  # its class: machines of a class are equal
    kit_version: str
    probe: str  # digest of the probe's source
    kernel: str
    cpu: str
    cores: Count
    memory: Whole  # bytes
    virtualization: str
    root: bool
    machine: str  # as the fact of that name
    named: bool = False  # whether its user named the class
    #: Its lock is its own, so other workers may measure on the same machine meanwhile.
    together: bool = False
    #: Those that were tried and work; None if nothing was tried.
    drivers: tuple[str, ...] | None = None
    #: Those that were tried and work; None if nothing was tried.
    filesystems: tuple[str, ...] | None = None
    docker: Docker = field(default_factory=Docker)  # the one that its arms without a version run
    died: str = ""  # signal and time at which the previous worker died; '' if it did not

    def lacks(self, arms: Iterable[Arm]) -> str:
        """Return why the machine can't run one of the arms, as far as known; '' if it may."""
        for arm in arms:
            if self.filesystems is not None and arm.filesystem not in self.filesystems:
                return f"{self.name} has no {arm.filesystem}"
            for part in arm.parts:
                tried = bool(part.driver) and "@" not in part.engine  # engine roots are made when they are needed
                if self.drivers is not None and tried and f"{part.engine}/{part.driver}" not in self.drivers:
                    return f"{self.name} has no {part.engine}/{part.driver}"
                if reason := lacking(part.engine, part.driver, self.docker):
                    return f"{self.name}: {reason}"
        return ""


@dataclass(frozen=True)
class Progress:
    """Progress of a machine's share. ``left``: remaining seconds; None if not known yet."""

    done: int  # runs
    runs: int
    left: float | None


@dataclass(frozen=True)
class ShareStatus:
    """A machine's share, by its key. ``progress``: None during set-up."""

    share: str
    progress: Progress | None


@dataclass(frozen=True)
class MemberStatus:
    """A machine and what runs there."""

    member: Member
    runs: tuple[ShareStatus, ...] = ()


@dataclass(frozen=True)
class Condition:
    """One of ``--where``: ``cores>=32``, ``cpu=*Gold*``."""

    name: str
    sign: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}{self.sign}{self.value}"

    def holds(self, member: Member) -> bool:
        if self.name in _NUMBERS:
            return _SIGNS[self.sign](getattr(member, self.name), _number(self.name, self.value))
        texts = _TEXTS[self.name](member)
        return any(fnmatchcase(text, self.value) for text in texts) == (self.sign == "=")


_NUMBERS = ("cores", "memory")
#: Most digits of a number; Python refuses to read one of 4,300.
_DIGITS = 9
_TEXTS: dict[str, Callable[[Member], tuple[str, ...]]] = {
    "name": lambda member: (member.name,),
    "class": lambda member: (member.kind,),
    "cpu": lambda member: (member.cpu,),
    "kernel": lambda member: (member.kernel.split()[0],),
    "docker": lambda member: (member.docker.version,),
    "driver": lambda member: tuple(name for pair in member.drivers or () for name in (pair, pair.partition("/")[2])),
    "filesystem": lambda member: member.filesystems or (),
}
_SIGNS: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, ">": operator.gt, "<": operator.lt, "=": operator.eq,
}  # fmt: skip
_CONDITION = re.compile(r"\s*(\w+)\s*(>=|<=|!=|>|<|=)\s*(.+?)\s*")


def parse_where(text: str) -> tuple[Condition, ...]:
    """Parse ``cores>=32, memory>=64G, kernel=6.8*``: all conditions must be met. Raises UsageError."""
    conditions = []
    for part in filter(str.strip, text.split(",")):
        match = _CONDITION.fullmatch(part)
        if not match or match[1] not in (*_NUMBERS, *_TEXTS):
            names = ", ".join((*_NUMBERS, *_TEXTS))
            raise UsageError(f"--where '{part.strip()}' is not a condition", f"use NAME SIGN VALUE; names: {names}")
        condition = Condition(match[1], match[2], match[3])
        if condition.name in _NUMBERS:
            _number(condition.name, condition.value)
        elif condition.sign not in ("=", "!="):
            raise UsageError(
                f"--where '{part.strip()}': a text is = or !=",
                "use for example cpu=*Gold*; * matches any characters",
            )
        conditions.append(condition)
    return tuple(conditions)


def _number(name: str, text: str) -> int:
    if name == "memory":
        return size(text, "--where memory")
    if not text.isdecimal() or len(text) > _DIGITS:
        raise UsageError(f"--where {name}: '{text}' is not a number", f"use for example {name}>=32")
    return int(text)


@dataclass(frozen=True)
class Selection:
    """The machines that a session takes."""

    count: int = 0  # 0: all that fit
    kind: str = ""
    where: tuple[Condition, ...] = ()
    alike: bool = False  # of one class only, since they share the session's rounds

    def fits(self, member: Member) -> bool:
        return (not self.kind or member.kind == self.kind) and all(condition.holds(member) for condition in self.where)


def count_machines(members: Iterable[Member]) -> int:
    """Return the number of machines: one with several workers counts once."""
    return len({member.machine for member in members})


def shared_machines(members: Iterable[Member]) -> tuple[tuple[str, ...], ...]:
    """Return the names of the workers of each machine that has several."""
    names: dict[str, list[str]] = {}
    for member in members:
        names.setdefault(member.machine, []).append(member.name)
    return tuple(tuple(workers) for workers in names.values() if len(workers) > 1)


def one_worker_each(members: Sequence[Member]) -> list[Member]:
    """Return the first worker of each machine, and the workers with a lock of their own. The others would wait for
    each other at the machine's lock."""
    first: dict[str, Member] = {}
    for member in members:
        first.setdefault(member.machine, member)
    return [member for member in members if member.together or first[member.machine] is member]


def choose(members: Sequence[Member], selection: Selection, arms: Sequence[Arm]) -> tuple[Member, ...]:
    """Return the requested number of machines, in order, by one worker each: several are taken only if each has a lock
    of its own. Raises MachineError, UsageError, which name machines that do not fit."""
    fitting = [member for member in members if selection.fits(member)]
    lacking = [reason for member in fitting if (reason := member.lacks(arms))]
    willing = [member for member in fitting if not member.lacks(arms)]
    able = one_worker_each(willing)
    least = selection.count or 1
    if len(able) < least:
        shared = [f"{', '.join(names)} are workers of one machine" for names in shared_machines(willing)]
        count = count_machines(members)
        there = f"the fleet has {count} machine{'s' if count != 1 else ''}"
        why = f"{there}, {count_machines(fitting)} of that class and condition"
        message = "; ".join([f"{least} wanted, {len(able)} can take part: {why}", *lacking, *shared])
        raise MachineError(message, "list them with kit fleet status")
    kinds = sorted({member.kind for member in able})
    if selection.alike and len(kinds) > 1:
        listed = "; ".join(f"'{kind}' ({sum(member.kind == kind for member in able)})" for kind in kinds)
        raise UsageError(
            f"--split needs similar machines, and here are {listed}",
            "pick a class: --class NAME",
        )
    chosen = able[: selection.count or len(able)]
    check_same(chosen)
    return tuple(chosen)


def check_same(members: Sequence[Member]) -> None:
    """Check that kits and probes are equal, since figures of different ones are not mixed. Raises UsageError that names
    machines that differ."""
    for what, name in (("kit", "kit_version"), ("probe", "probe")):
        by_version: dict[str, list[str]] = {}
        for member in members:
            by_version.setdefault(getattr(member, name)[:12], []).append(member.name)
        if len(by_version) > 1:
            listed = "; ".join(f"{value} on {', '.join(names)}" for value, names in by_version.items())
            raise UsageError(f"machines of different {what}s are not mixed: {listed}", "install one version on all")
