"""A bisection: its candidates, its steps, and what they show. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kit.analysis.session.slowdown import NOT_SLOWER, SLOWER, UNDECIDED, Slowdown
from kit.core.codec import Moment

#: The verdict of a step whose candidate can't be measured: its build fails, or it does not run here.
SKIPPED = "skipped"
#: Results: one first slow candidate; several possible ones, since those between were skipped; the last candidate is not
#: slower than the good one; a step stayed undecided.
FOUND, SEVERAL, NO_SLOWDOWN, INCONCLUSIVE = "found", "several", "no slowdown", "inconclusive"


@dataclass(frozen=True)
class Candidate:
    """A commit, or a version of an engine. ``name``: short, for tables. ``id``: the whole hash, or ENGINE@VERSION.
    ``created``: the author's date. ``merge``: whether it has several parents."""

    name: str
    id: str
    subject: str = ""
    author: str = ""
    created: Moment | None = None
    merge: bool = False


@dataclass(frozen=True)
class BisectionStep:
    """A candidate compared with the good one. ``error``: probability of a wrong verdict, at most. ``seconds``: that it
    took. ``reason``: why it was skipped or stayed undecided. ``earlier``: whether an earlier start measured it.
    ``rounds_before``: those of an earlier start that measured a part."""

    candidate: Candidate
    verdict: str
    slowdown: Slowdown
    error: float
    session: str = ""
    seconds: float = 0.0
    reason: str = ""
    earlier: bool = False
    rounds_before: int = 0


@dataclass(frozen=True)
class Bisection:
    """``candidates``: oldest first; the last is the bad one. ``suspects``: those that may be the first slow one; empty
    unless a slowdown was shown. ``error``: probability that a verdict of any step is wrong, at most."""

    arm: str
    threshold: float
    good: Candidate
    candidates: tuple[Candidate, ...]
    steps: tuple[BisectionStep, ...]
    result: str
    suspects: tuple[Candidate, ...]

    @property
    def first(self) -> Candidate | None:
        """Return the first slow candidate; None if it is not known."""
        return self.suspects[0] if self.result == FOUND else None

    @property
    def error(self) -> float:
        return sum(step.error for step in self.steps if step.verdict in (SLOWER, NOT_SLOWER))

    @property
    def rounds(self) -> int:
        """Return the rounds of this start."""
        return sum(step.slowdown.rounds - step.rounds_before for step in self.steps if not step.earlier)

    @property
    def seconds(self) -> float:
        """Return how long this start measured."""
        return sum(step.seconds for step in self.steps if not step.earlier)

    @property
    def earlier(self) -> int:
        """Return how many steps are from earlier starts."""
        return sum(step.earlier for step in self.steps)

    @property
    def metric(self) -> str:
        """Return the metric of the verdicts, durable or real; '' before the first figures."""
        return next((step.slowdown.metric for step in self.steps if step.slowdown.metric), "")

    def step(self, candidate: Candidate) -> BisectionStep | None:
        """Return the step that measured a candidate."""
        return next((step for step in self.steps if step.candidate == candidate), None)

    @property
    def before(self) -> Candidate:
        """Return the candidate before the first suspect; of the first candidate, the good one."""
        place = self.candidates.index(self.suspects[0]) if self.suspects else 0
        return self.candidates[place - 1] if place else self.good

    @property
    def undecided(self) -> BisectionStep | None:
        """Return the step that ended the search without a verdict."""
        return next((step for step in self.steps if step.verdict == UNDECIDED), None)
