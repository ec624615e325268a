"""The steps of a bisection. Each is a session of two arms, the good candidate's and another's. They share its
rounds, and a sequential test ends it. Its labels let a later start of the same bisection find it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kit.analysis.bisection.bisection import SKIPPED, Bisection, BisectionStep, Candidate
from kit.analysis.bisection.search import most_verdicts, search
from kit.analysis.session.slowdown import UNDECIDED, Slowdown, judge_slowdown
from kit.bisection.candidates import BisectionRange, arms_of_step, named_revisions
from kit.bisection.conditions import what_changed
from kit.core.codec import encode_json
from kit.core.errors import KitError, MachineError, RunError, UsageError
from kit.core.paths import Paths
from kit.host.machine import read_host
from kit.model.arm import Arm
from kit.model.default import AUTO, AUTO_ROUNDS, OFF
from kit.model.default_driver import Docker, lacking
from kit.model.event import EventSink
from kit.model.fact import RUN_ORDER, SLICE, STOPPED
from kit.model.plan import MOST_ROUNDS, SlowdownTest
from kit.model.session import Request, Session, title_of
from kit.model.sweep import positive_number
from kit.session.prepared import StartOptions
from kit.session.setup.resumable import check_begun
from kit.session.start import launch, resume
from kit.store import SessionFilter, Store

#: Labels of a step's session: the bisection, by the digest of what its steps have in common, and the candidate.
BISECTION, CANDIDATE = "bisect", "candidate"
#: Seconds of a session that goes on without a limit: ten years.
_UNLIMITED = 10 * 365 * 86400.0


@dataclass(frozen=True)
class BisectionRequest:
    """What a user asked for. ``request``: what both arms of a step run. ``error``: of the whole answer. ``budget``:
    seconds of this start. ``again``: whether the steps of earlier starts do not count."""

    request: Request
    arm: Arm
    range: BisectionRange
    threshold: float
    error: float
    budget: float | None = None
    again: bool = False

    @property
    def key(self) -> str:
        """Return the digest of what all steps have in common. A step is valid whatever the bad end is."""
        common = [self.request, self.arm, self.range.good.id, self.threshold]
        return hashlib.sha256(encode_json(common).encode()).hexdigest()[:12]

    @property
    def title(self) -> str:
        """Return the title of the steps' sessions: none of the histories of other sessions is theirs."""
        return self.request.title or f"bisect {title_of(self.request, self.request.scenario)}"

    def step(self, candidate: Candidate, test: SlowdownTest, interleave: str) -> Request:
        """Return the request of a step, without a control: it would take a third of the time."""
        arms, base = arms_of_step(self.arm, self.range, candidate)
        return replace(
            self.request,
            title=self.title,
            source=self.range.source or self.request.source,
            revisions=tuple(named_revisions(self.range, candidate)),
            arms=tuple(map(str, arms)),
            baseline=str(base),
            rounds=AUTO_ROUNDS,
            control=False,
            rerun=False,
            interleave=interleave,
            labels=(*self.request.labels, (BISECTION, self.key), (CANDIDATE, candidate.id)),
            test=test,
        )


def run_bisection(
    asked: BisectionRequest, paths: Paths, store: Store, observer: EventSink, start: StartOptions
) -> Bisection:
    """Run a bisection, or what earlier starts left of it. Raises KitError, KeyboardInterrupt."""
    steps = _Steps(asked, paths, store, observer, start)
    return search(asked.range.good, asked.range.candidates, str(asked.arm), asked.threshold, asked.error, steps.measure)


class _Steps:
    """Measures candidates. The run order that the first session has found suits the others, without further pilot
    runs."""

    def __init__(
        self, asked: BisectionRequest, paths: Paths, store: Store, observer: EventSink, start: StartOptions
    ) -> None:
        self._asked, self._paths, self._store, self._observer, self._start = asked, paths, store, observer, start
        self._ends = None if asked.budget is None else time.monotonic() + asked.budget
        self._interleave = asked.request.interleave
        self._round = 0.0  # seconds of the longest round so far
        self._host = read_host()

    def measure(self, candidate: Candidate, error: float) -> BisectionStep:
        """Return the verdict on a candidate: a stored one, or that of a session. Raises KitError."""
        test = SlowdownTest(self._asked.threshold, error)
        if reason := self._why_impossible(candidate):
            return BisectionStep(candidate, SKIPPED, Slowdown(UNDECIDED), error, reason=reason)
        self._observer.tell(f"candidate {candidate.name}: {candidate.subject}".removesuffix(": "))
        begun = None if self._asked.again else self._find(candidate, test)
        found = judge_step(begun, candidate) if begun else None
        if found and (found.verdict != UNDECIDED or found.slowdown.rounds >= MOST_ROUNDS):
            self._learn(begun)
            return replace(found, earlier=True)
        began, left = time.monotonic(), self._left()
        if left is not None and left <= self._round:
            found = found or BisectionStep(candidate, UNDECIDED, Slowdown(UNDECIDED), error)
            return replace(found, reason="the budget is spent", rounds_before=found.slowdown.rounds)
        session = self._run(candidate, test, begun, left)
        before = found.slowdown.rounds if found and begun and session.id == begun.id else 0
        self._learn(session)
        seconds = time.monotonic() - began
        found = judge_step(session, candidate)
        self._round = max(self._round, seconds / max(found.slowdown.rounds - before, 1))
        if found.verdict == UNDECIDED and left is not None and found.slowdown.rounds < MOST_ROUNDS:
            found = replace(found, reason="the budget is spent")
        return replace(found, seconds=seconds, rounds_before=before)

    def _why_impossible(self, candidate: Candidate) -> str:
        """Return why a version can't run the arm, whatever this machine has; '' if it can."""
        if self._asked.range.revisions:
            return ""
        return lacking(candidate.id, self._asked.arm.driver, Docker())

    def _left(self) -> float | None:
        return None if self._ends is None else self._ends - time.monotonic()

    def _find(self, candidate: Candidate, test: SlowdownTest) -> Session | None:
        """Return the newest session that tested the candidate as strictly, finished or not, under the conditions that
        hold now. Only what this user has begun here counts: others may write to the store. One in which an arm could
        not run, or failed, does not count: the reason may be gone."""
        wanted = {(BISECTION, self._asked.key), (CANDIDATE, candidate.id)}
        changed = ""
        for head in self._store.list(SessionFilter(self._asked.title, machine=self._host.machine)):
            mine = wanted <= {*head.request.labels}
            strict = head.request.test is not None and head.request.test.error <= test.error
            if not mine or not strict or head.imported or head.not_run:
                continue
            try:
                check_begun(self._paths.data, head)
                session = replace(head, samples=self._store.get(head.id).samples)  # of the request that was checked
                if any(sample.status != "ok" for sample in session.samples):
                    continue
                differs = what_changed(session, self._host, self._paths, self._observer.tell)
            except KitError as error:
                differs = error.message
            if not differs:
                return session
            changed = changed or differs
        if changed:
            self._observer.tell(f"candidate {candidate.name} is measured again: {changed}")
        return None

    def _run(self, candidate: Candidate, test: SlowdownTest, begun: Session | None, left: float | None) -> Session:
        context = (self._paths, self._store, self._observer, self._start)
        if begun is not None:
            try:
                return resume(begun.id, *context, _UNLIMITED if left is None else left)
            except UsageError as error:
                self._observer.tell(f"candidate {candidate.name} begins again: {error.message}")
        request = self._asked.step(candidate, test, self._interleave)
        return launch(replace(request, budget=left), *context)

    def _learn(self, session: Session | None) -> None:
        """Take over the run order of a session, if no option gives it."""
        if session is None or self._interleave != AUTO or not RUN_ORDER.text(session.facts):
            return
        seconds = positive_number(SLICE.text(session.facts).partition(" ")[0])
        self._interleave = f"{seconds:.3f}s" if seconds else OFF


def judge_step(session: Session, candidate: Candidate) -> BisectionStep:
    """Return what a step's session shows. Raises MachineError or RunError if the good candidate can't be measured."""
    ((arm, base),) = session.baselines
    test = session.request.test or SlowdownTest(0.0, 0.0)
    step = BisectionStep(candidate, SKIPPED, Slowdown(UNDECIDED), test.error, session.id)
    not_run = {item.arm: item for item in session.not_run}
    if base in not_run:
        raise MachineError(f"{base} does not run here: {not_run[base].reason}", not_run[base].fix)
    if arm in not_run:
        return replace(step, reason=not_run[arm].reason)
    failed = {sample.arm: sample for sample in reversed(session.samples) if sample.status != "ok"}
    if base in failed:
        raise RunError(
            f"the good end {base} failed in round {failed[base].round}: {failed[base].error}",
            "start again, which tries it again (all steps with --restart); or give another --good; "
            f"see {failed[base].log}",
        )
    if arm in failed:
        return replace(step, reason=_in_one_line(failed[arm].error))
    found = judge_slowdown(session.samples, arm, base, test)
    reason = STOPPED.text(session.facts) if found.verdict == UNDECIDED else ""
    return replace(step, verdict=found.verdict, slowdown=found, reason=reason)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def most_steps(candidates: Sequence[Candidate]) -> int:
    """Return the largest number of verdicts: the bad end, and the search."""
    return 1 + most_verdicts(len(candidates))
