"""Checks the claims of a guest or of a machine of a fleet. Root there may claim anything. The claims are accepted for
its own runs, for facts and for arms that don't run, and for nothing else. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from kit.core.codec import UnreadableError
from kit.model.event import Event, FactsKnown, PhaseStarted, RunFlagged, RunsAdded, RunsPlanned, SampleTaken, Told

#: Limits of a session: runs, facts, characters of a fact, and of shown text.
MOST_SAMPLES, MOST_FACTS, _LONGEST_FACT, LONGEST = 10_000, 1_000, 1 << 16, 2_000


@dataclass(frozen=True)
class Bounds:
    """``who``: the sender. ``arms``, ``points``: those of the session."""

    who: str
    arms: Collection[str]
    points: Collection[str]

    def checked(self, event: Event) -> Event:
        """Return the event with its texts cut to the shown length. Raises UnreadableError, as the other methods do."""
        match event:
            case Told():
                return Told(event.text[:LONGEST])
            case RunsAdded():
                return replace(event, reason=event.reason[:LONGEST])
            case PhaseStarted():
                self.check_run(str(event.step.arm), event.step.point)
                return replace(event, phase=event.phase[:LONGEST])
            case SampleTaken():
                self.check_run(event.sample.arm, event.sample.point)
            case RunFlagged():
                self.check_run(event.arm, event.point)
            case FactsKnown():
                self.check_news(event)
            case RunsPlanned():
                pass
            case _:
                raise self.refused(f"a message of the kind {type(event).__name__}")
        return event

    def check_run(self, arm: str, point: str) -> None:
        if arm not in self.arms or point not in self.points:
            raise self.refused(f"a run of {arm[:60]!r} {point[:60]!r}, which the session does not have")

    def check_count(self, samples: int) -> None:
        """Refuse too many samples. ``samples``: the number of the sender's earlier ones."""
        if samples >= MOST_SAMPLES:
            raise self.refused(f"it says more than {MOST_SAMPLES} runs")

    def check_news(self, news: FactsKnown) -> None:
        """Check the sender's facts and the arms that don't run."""
        lengths = (len(key) + len(text) for key, text in news.facts.items())
        if len(news.facts) > MOST_FACTS or max(lengths, default=0) > _LONGEST_FACT:
            raise self.refused("its facts are too many, or too long")
        if not {blocked_arm.arm for blocked_arm in news.not_run} <= {*self.arms}:
            raise self.refused("an arm does not run that the session does not have")

    def refused(self, what: str) -> UnreadableError:
        return UnreadableError(
            f"{self.who} broke the protocol: {what}",
            "check the image and the scenario: what runs there is not trustworthy",
        )
