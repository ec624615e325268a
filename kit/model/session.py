"""Stored sessions: the request and its results. Pure."""

from __future__ import annotations

import random
import re
import shlex
import string
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kit.core import exit_code
from kit.core.codec import Count, Moment, Whole
from kit.core.errors import UsageError
from kit.model.arm import Arm, known_arm, spelled
from kit.model.fact import ACCELERATOR, FLEET, GUEST, KERNEL, RUN_ORDER, WORKER, Fact, stored
from kit.model.options import Pairs, SessionOptions
from kit.model.plan import Plan
from kit.model.sample import IMPORTED, TRACED, UNPAIRED, Sample
from kit.model.variant import unvaried_name

STATES = RUNNING, DONE, INTERRUPTED, FAILED = "running", "done", "interrupted", "failed"


@dataclass(frozen=True)
class Request(SessionOptions):
    """Everything a user asked for, except the consent to wipe a device, which is valid for one start alone: options,
    and what is no option of all front ends.

    ``params`` may contain lists of values, which are swept. ``arms`` empty means the default arms. Either ``scenario``
    names one, or ``command`` or ``commands`` are run as one. A stored session's request is frozen: see
    kit.session.plan.planning."""

    scenario: str = ""
    params: Pairs = ()
    command: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    device: str = ""
    mkfs: Pairs = ()
    mount: Pairs = ()
    profiles: Pairs = ()  # the user's own filesystem profiles: name, definition
    export: str = ""  # HOST:/PATH of @nfs
    thin_device: str = ""  # for devicemapper+thinpool
    guest_memory: Whole = 0  # bytes
    guest_cores: Count = 0
    load_params: Pairs = ()
    ignore: tuple[str, ...] = ()  # conditions that may differ within the series of its history
    confirm: Count = 0  # sessions that confirm a change in it; 0: the default
    suite: str = ""  # the run of a suite that the session belongs to, and the number of its task

    @property
    def own_command(self) -> str:
        """Return the user's command as text, or several; '' for a scenario."""
        return "; ".join(text for _, text in self.commands) or shlex.join(self.command)


@dataclass(frozen=True)
class NotRun:
    """An arm that could not run here: never dropped, always shown."""

    arm: str
    reason: str
    fix: str


@dataclass(frozen=True)
class Session:
    """All samples of one plan on one machine, with the facts of that machine."""

    id: str
    created: Moment  # Unix time
    kit_version: str
    title: str  # what it is called, in lists and as a series
    status: str
    request: Request
    arms: tuple[str, ...]
    baselines: tuple[tuple[str, str], ...]
    seed: Whole
    facts: Mapping[str, str] = field(default_factory=dict)  # as kit.model.fact makes and reads them
    not_run: tuple[NotRun, ...] = ()
    samples: tuple[Sample, ...] = ()
    imported: bool = False  # another kit's, or nobody's: what it would run was not asked for here
    plan: Plan | None = None  # what it began with; None: nobody planned it

    def __post_init__(self) -> None:
        check_session_id(self.id)
        for arm, base in self.baselines:
            if arm == base:
                raise UsageError(f"session {self.id}: the arm {arm!r} is its own baseline", "give it another")
        plan = self.plan
        if plan and (tuple(map(str, plan.arms)), plan.baselines, plan.seed) != (self.arms, self.baselines, self.seed):
            raise UsageError(f"session {self.id}: its arms are not those of its plan", "start a new one")

    @property
    def guest(self) -> str:
        """Return the session's guest, with its kernel and the effect on figures; '' for the machine itself."""
        if GUEST.key not in self.facts:
            return ""
        kernel, *_ = KERNEL.text(self.facts).split() or ["unknown"]
        return f"{GUEST.text(self.facts)}, kernel {kernel}; accelerator: {ACCELERATOR.text(self.facts, 'unknown')}"

    @property
    def unpaired(self) -> bool:
        """Return whether a tool made the runs that does not pair them: a round is no more than a run's number."""
        return RUN_ORDER.text(self.facts) == UNPAIRED

    @property
    def labelled(self) -> bool:
        """Return whether others measured: machine, image and run order are unknown, and arms are labels alone."""
        return bool(self.samples) and self.samples[0].kind == IMPORTED

    def known_arm(self, name: str) -> Arm | None:
        """Return the arm of that name; None for a label of imported figures: nobody measured what it looks like."""
        return None if self.labelled else known_arm(name)

    @property
    def failed(self) -> tuple[Sample, ...]:
        """Return the failed runs, which fail the session: traced ones are left out, since measurement works without
        them."""
        return tuple(sample for sample in self.samples if sample.status != "ok" and sample.kind != TRACED)

    def missed(self, requested: Sequence[str]) -> tuple[NotRun, ...]:
        """Return the arms that did not run although the user named them: in ``requested``, or as the baseline."""
        baseline = self.request.baseline
        names = (*requested, baseline) if baseline else requested
        spelled_names = {spelled(name, self.request.engine) for name in names}
        return tuple(entry for entry in self.not_run if {entry.arm, unvaried_name(entry.arm)} & spelled_names)

    def exit_code(self, requested: Sequence[str]) -> int:
        """Return whether a run failed, an arm did not run that the user named, or nothing was stored or could run at
        all."""
        lost = self.status == FAILED
        if self.failed or (lost and self.samples):
            return exit_code.FAILED
        if self.missed(requested):
            return exit_code.NOT_RUN
        return exit_code.FAILED if lost else exit_code.DONE

    @property
    def resume_command(self) -> str:
        """Return the command that finishes the session; '' for a session that its machine alone ran in a fleet."""
        try:  # anybody who may write to the store may have written the fact
            options = shlex.join(shlex.split(FLEET.text(self.facts)))
        except ValueError:
            options = ""
        if WORKER.text(self.facts) and not options:
            return ""
        return f"kit compare --resume {self.id} {options}".rstrip()

    def kept_plan(self) -> Plan:
        """Return the plan that the session began with. Raises UsageError without one."""
        if self.plan is None:
            raise UsageError(f"session {self.id} has no plan", "start a new one with kit compare")
        return self.plan

    def with_facts(self, facts: Iterable[Fact]) -> Session:
        """Return the session with these facts; a new one replaces an old one with its key."""
        return replace(self, facts={**self.facts, **stored(facts)})


#: A session's id is the name of files, directories and a control group, and a part of pages' addresses.
_SESSION_ID = re.compile(r"(?!last\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def is_session_id(text: str) -> bool:
    """Return whether this is a valid session id: 40 letters, digits, ``-``, ``.`` and ``_`` at most, no dot first.
    ``last`` is invalid, since it means the newest session."""
    return _SESSION_ID.fullmatch(text) is not None


def check_session_id(text: object) -> None:
    """Check a session's id. Raises UsageError."""
    if not isinstance(text, str) or not is_session_id(text):
        raise UsageError(
            f"{str(text)[:60]!r} is not a session's id",
            "use letters, digits, '-', '.' and '_', 40 at most; no dot first, and not the word last",
        )


#: Most characters of a title that is a command: a list of sessions has no room for a script.
_TITLE = 40


def title_of(request: Request, label: str) -> str:
    """Return the user's title of the session, else its scenario, else the first words of its command."""
    if request.title or not request.own_command:
        return request.title or label
    return textwrap.shorten(request.own_command, _TITLE, placeholder=" …")


def new_session_id(now: float) -> str:
    """Return a new id. Ids sort by time, and two from one second differ."""
    tail = "".join(random.SystemRandom().choices(string.ascii_lowercase + string.digits, k=4))
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{tail}"
