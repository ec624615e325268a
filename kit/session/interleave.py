"""Arms by turns: of several commands, each in a place of its own, one runs at a time, for a slice, and all others stand
still. What the speed of the machine does in seconds meets all of them alike."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kit.core.errors import RunError, TimedOut
from kit.core.limit import Deadline
from kit.engines import Place
from kit.host.counters import Counters, device_writes
from kit.host.freezer import Freezer
from kit.probe import Timing
from kit.session.measure import Work, counters_of

#: Seconds between two looks whether an arm that is left alone is still alive.
_LOOK = 1.0
#: The share by which turns are longer or shorter.
_JITTER = 0.2


@dataclass
class OwnClock:
    """An arm's own time, which stands still while others have their turn. ``limit``: of that time; ``until``: of all
    arms together. ``stopped``: since when it stands still, by time.monotonic()."""

    limit: Deadline | None = None
    until: Deadline | None = None
    stopped: float = field(default_factory=time.monotonic)

    def go(self) -> tuple[float, float]:
        """Return when it stopped, and now."""
        now = time.monotonic()
        self.limit = self.limit and self.limit.later(now - self.stopped)
        return self.stopped, now

    def stop(self) -> None:
        self.stopped = time.monotonic()

    def over(self) -> str:
        """Why the arm may not go on, or ''."""
        now = time.monotonic()
        return next((item.text for item in (self.limit, self.until) if item and now >= item.at), "")


@dataclass(eq=False)
class Underway:
    """A command that has been asked for, in a place that is frozen, and what its turns have taken so far. ``rests``:
    when each freeze between two turns began and ended, by time.monotonic()."""

    place: Place
    freezer: Freezer
    clock: OwnClock = field(default_factory=OwnClock)
    turns: int = 0
    rests: list[tuple[float, float]] = field(default_factory=list)
    frozen_bytes: float | None = 0.0
    others_bytes: float = 0.0
    spent: Counters | None = None
    slices: list[tuple[float, float]] = field(default_factory=list)  # when each began and ended, Unix time
    timing: Timing | None = None
    error: RunError | None = None
    _last: Counters | None = field(default=None, repr=False)

    @property
    def ended(self) -> bool:
        return self.timing is not None or self.error is not None

    def turn(self, seconds: float | None, others: Sequence[str]) -> None:
        """Run for so long, or to the end of the command. ``others``: devices of those that stand still."""
        before, theirs = counters_of(self.place), device_writes(others)
        self.note_rest(before)
        rest = self.clock.go()
        if self.turns:
            self.rests.append(rest)
        began = time.time()
        try:
            self.freezer.thaw()
            self.timing = self._wait(seconds)
            self.freezer.freeze()
        except RunError as error:
            self.error = error
        self.slices.append((began, time.time()))
        self.clock.stop()
        self.turns += 1
        self._last = counters_of(self.place)
        spent = self._last.since(before)
        self.spent = self.spent + spent if self.spent else spent
        self.others_bytes += device_writes(others) - theirs

    def _wait(self, seconds: float | None) -> Timing | None:
        """For the command's end, so long at most. Raises RunError where the arm died, or is past its deadline."""
        place, over = self.place, time.monotonic() + (seconds or 0.0)
        while not place.probe.answers(_LOOK if seconds is None else max(0.0, over - time.monotonic())):
            late = self.clock.over()
            if late:
                place.end()
                raise TimedOut(late)
            reason = place.dead()
            if reason:
                raise RunError(f"the arm died: {reason}", "see the engine's log")
            if seconds is not None:
                return None
        return place.probe.timing(place.dead)

    def own_time(self, at: float) -> float:
        """Return how many seconds the command had run by a Unix time; before its first slice, and frozen, none pass."""
        return sum(min(at, ended) - began for began, ended in self.slices if began < at)

    def note_rest(self, now: Counters) -> None:
        """That it has stood still until now, since its last turn or since this was noted."""
        if self._last is None or self.frozen_bytes is None:
            return
        written = now.since(self._last).write_bytes
        self.frozen_bytes = None if written is None else self.frozen_bytes + written
        self._last = now

    @property
    def work(self) -> Work:
        """Raises the RunError or TimedOut that it has ended with."""
        if self.error:
            raise self.error
        assert self.timing and self.spent, "it has not ended"
        # A command may end while its group is being frozen: its answer is read a freeze later, which it did not live.
        frozen_for = sum(go - stop for stop, go in self.rests if go <= self.timing.ended)
        timing = replace(self.timing, real=self.timing.real - frozen_for)
        written, frozen = self.spent.write_bytes, self.frozen_bytes
        spent = replace(self.spent, write_bytes=None if written is None or frozen is None else written + frozen)
        return Work(timing, spent, self.turns, frozen, self.others_bytes)


def interleave(underway: Sequence[Underway], seconds: float, order: random.Random) -> None:
    """Until all have ended, each has turns of about so many seconds: all in an order that is drawn anew each time, so
    that nobody always follows the same one, and for lengths that differ, so that nothing that comes and goes on the
    machine keeps step with anybody's."""
    last: Underway | None = None
    while left := [item for item in underway if not item.ended]:
        for item in _drawn(left, last, order):
            length = None if len(left) == 1 else seconds * order.uniform(1 - _JITTER, 1 + _JITTER)
            item.turn(length, _devices(underway, item))
            last = item


def _drawn(left: Sequence[Underway], last: Underway | None, order: random.Random) -> list[Underway]:
    """Who had the last turn is not the first again: that would be one turn of twice the length."""
    drawn = list(left)
    order.shuffle(drawn)
    return drawn[1:] + drawn[:1] if drawn[0] is last else drawn


def _devices(underway: Sequence[Underway], mine: Underway) -> list[str]:
    return [item.place.backing.device for item in underway if item is not mine and item.place.backing.device]
