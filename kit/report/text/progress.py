"""Live progress: a table and a line that move on a terminal, plain lines in other places, nothing with --quiet."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kit.core.sanitize import printable
from kit.model.event import (
    Event,
    EventSink,
    FactsKnown,
    PhaseStarted,
    RunsAdded,
    RunsPlanned,
    SampleTaken,
    SessionStarted,
    Told,
)
from kit.model.fact import STOPPED
from kit.model.plan import DEFAULT_BUDGET, PlanStep
from kit.model.sample import TRACED, Sample
from kit.model.session import Session
from kit.report.format import units

if TYPE_CHECKING:
    from kit.analysis.session.ranking import Ranking

#: Machines shown at the same time, the most recently started: as many as a terminal has room for.
_MACHINES = 10
#: The ranking waits this many times its last computing time: with a thousand machines, rounds end constantly.
_RANK_AGAIN = 20


class Quiet(EventSink):
    """Prints nothing but errors."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._samples: list[Sample] = []
        self._machine = ""

    def machine(self, name: str) -> None:
        """Set the machine of the following events, of several; '' for none."""
        self._machine = name

    @property
    def latest(self) -> Session | None:
        """Return the session with all measurements so far; None before the session began."""
        latest = {(sample.kind, sample.round, sample.arm, sample.point): sample for sample in self._samples}  # a rerun
        return replace(self._session, samples=tuple(latest.values())) if self._session else None

    def take(self, event: Event) -> None:
        match event:
            case SessionStarted():
                self._session, self._samples = event.session, list(event.session.samples)
            case SampleTaken():
                self._samples.append(event.sample)
                if not event.earlier:
                    self._show_run(event.sample)

    def _show_run(self, sample: Sample) -> None:
        if sample.status != "ok":
            print(printable(self._by(f"{_where(sample)} failed: {sample.error}")), file=sys.stderr)

    def _by(self, text: str) -> str:
        """Return the text with its machine, if there are several."""
        return f"{self._machine}: {text}" if self._machine else text

    def close(self) -> None:
        return None


#: Key of a round's runs: machine, number, the round of which it is a rerun, whether it is traced.
_RoundKey = tuple[str, int, int | None, bool]


@dataclass
class _Round:
    """The current round of one machine. ``began``: on the monotonic clock."""

    key: _RoundKey
    began: float
    runs: int = 0  # that are over


class TimeLeft:
    """Estimates the remaining time of a session: the mean duration of its rounds times the number of certain ones.

    A round ends when the machine's next one begins, or when it has as many runs as an earlier one. The warm-up counts
    only until a measured round is over."""

    def __init__(self, limit: float | None, open_ended: bool) -> None:
        """``limit``: seconds of the budget. ``open_ended``: more rounds than the certain ones may come."""
        self._limit, self._open_ended = limit, open_ended
        self._since = time.monotonic()
        self._now: dict[str, _Round] = {}
        self._whole: dict[_RoundKey, tuple[float, int]] = {}  # seconds and runs of each round that is over

    def running(self, machine: str, run: PlanStep | Sample) -> None:
        """Record that a run begins, perhaps the first of its round."""
        key = (machine, run.round, run.rerun_of, run.kind == TRACED)
        before = self._now.get(machine)
        if before is not None and before.key == key:
            return
        now = time.monotonic()
        if before is not None and before.runs:
            self._whole[before.key] = (now - before.began, before.runs)
        self._now[machine] = _Round(key, now)

    def finished(self, machine: str, run: PlanStep | Sample) -> None:
        self.running(machine, run)
        current = self._now[machine]
        current.runs += 1
        if current.runs >= max((runs for _, runs in self._whole.values()), default=math.inf):
            self._whole[current.key] = (time.monotonic() - current.began, current.runs)

    def left(self, runs: int) -> str:
        """Return ``about 3 min left, 10 min at most``; '' before a round is over. ``runs``: certain to come."""
        rounds = [measured for key, measured in self._whole.items() if key[1]] or list(self._whole.values())
        if not rounds:
            return ""
        each, of_each = (sum(column) / len(rounds) for column in zip(*rounds, strict=True))
        certain = each * runs / of_each / max(len(self._now), 1)
        most = None if self._limit is None else max(self._limit - (time.monotonic() - self._since), 0.0)
        if not self._open_ended:
            return f"{units.about(certain)} left" if runs else ""
        if most is None:
            return f"at least {units.about(certain)} left" if runs else ""
        if certain >= most:
            return f"{units.about(certain)} left" if runs else ""
        at_most = units.about(most).removeprefix("about ")
        return f"{units.about(certain)} left, {at_most} at most" if runs else f"{at_most} left at most"


class Lines(Quiet):
    """One plain line per event on stderr, without control codes."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0
        self._finished = 0
        self._ended = False
        self._left = TimeLeft(None, False)

    def write(self, text: str) -> None:
        print(printable(self._by(text)), file=sys.stderr, flush=True)

    def take(self, event: Event) -> None:
        super().take(event)
        match event:
            case Told():
                self.write(event.text)
            case RunsPlanned():
                self._steps, self._finished, self._ended = event.runs, 0, False
                self._left = TimeLeft(*_limits(self._session))
                already = f", {event.done} done before" if event.done else ""
                self.write(f"{event.runs} runs{already}")
            case RunsAdded():
                self._steps = max(self._steps, self._finished + event.runs)
                self.write(event.reason)
            case PhaseStarted():
                self._left.running(self._machine, event.step)
            case FactsKnown():
                self._show_end(STOPPED.text(event.facts))

    def _show_end(self, reason: str) -> None:
        """Say once why the measurement ended, and after how many of the planned runs. Several machines have no common
        end."""
        if reason and self._finished and not self._ended and not self._machine:
            self._ended = True
            planned = f" of {self._steps} planned" if self._finished < self._steps else ""
            self.write(f"measurement ended after {self._finished}{planned} runs: {reason}")

    def _show_run(self, sample: Sample) -> None:
        self._finished += 1
        self._steps = max(self._steps, self._finished)  # a resumed session warms up again
        self._left.finished(self._machine, sample)
        real = sum(phase.real or 0 for phase in sample.phases)
        what = f"real {units.seconds(real)}" if sample.status == "ok" else f"FAILED: {sample.error}"
        estimate = self._time_left()
        self.write(f"[{self._finished}/{self._steps}] {_where(sample)}  {what}{f'  ({estimate})' if estimate else ''}")

    def _time_left(self) -> str:
        return self._left.left(max(self._steps - self._finished, 0))


def _limits(session: Session | None) -> tuple[float | None, bool]:
    """Return the seconds of a session's budget, and whether its number of rounds is open."""
    if session is None:
        return None, False
    request = session.request
    open_ended = request.until_decided and request.budget is None
    limit = DEFAULT_BUDGET if open_ended else request.budget
    return limit, request.until_decided or limit is not None or request.precision is not None


class Live(Lines):
    """On a terminal: finished runs as lines, below them the ranking after each round, current runs, and the time left.

    A slow ranking is left out for some rounds."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.live import Live as Region
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._round = 1
        self._rank_at = 0.0  # on the monotonic clock
        self._rows: dict[str, Any] = {}
        self._bar: Any = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._task = self._bar.add_task("starting", total=None, left="")
        # Twice a second: the kit's own CPU is subtracted from what it measures, but should be small all the same.
        self._region: Any = Region(self._bar, console=Console(stderr=True), refresh_per_second=2, transient=True)
        self._region.start()

    def write(self, text: str) -> None:
        self._region.console.print(printable(self._by(text)), highlight=False, markup=False)

    def take(self, event: Event) -> None:
        super().take(event)
        match event:
            case RunsPlanned():
                self._bar.reset(self._task, total=event.runs)
            case RunsAdded():
                self._bar.update(self._task, total=self._steps)
            case PhaseStarted():
                self._show_phase(event.step, event.phase)
            case SampleTaken():
                estimate = self._time_left()
                self._bar.update(self._task, completed=self._finished, total=self._steps, left=estimate)

    def _show_phase(self, step: PlanStep, phase: str) -> None:
        began = time.monotonic()
        if step.round > self._round and began >= self._rank_at:  # a round is whole, the next one's first run not begun
            self._round = step.round
            self._show_ranking()
            now = time.monotonic()
            self._rank_at = now + _RANK_AGAIN * (now - began) if self._machine else 0.0
        self._bar.update(self._row(), description=printable(self._by(f"{_where(step)}: {phase}")))
        self._bar.update(self._task, left=self._time_left())

    def _row(self) -> Any:
        """Return the row of the session, or of one of several machines. A new machine gets the row of the one whose
        last event is oldest."""
        if not self._machine:
            return self._task
        row = self._rows.pop(self._machine, None)
        if row is None and len(self._rows) >= _MACHINES:
            row = self._rows.pop(next(iter(self._rows)))
        self._rows[self._machine] = self._bar.add_task("", total=None, left="") if row is None else row
        return self._rows[self._machine]

    def _show_ranking(self) -> None:
        from rich.console import Group
        from rich.text import Text

        text = so_far(self.latest, self._region.console.width)
        if text:
            self._region.update(Group(Text(text, no_wrap=True), Text(""), self._bar))

    def close(self) -> None:
        self._region.stop()


def so_far(session: Session | None, width: int) -> str:
    """Return the ranking of measurements so far, shown until the session ends; '' without one."""
    if session is None:
        return ""
    from kit.analysis.session.analyse import rank_so_far
    from kit.report.format.wrap import wrap
    from kit.report.text.answer import COLUMNS, ROWS
    from kit.report.text.ranking import caption, table
    from kit.report.text.summary import rounds

    rankings = rank_so_far(session)
    if not rankings:
        return ""
    text = table(rankings[-1], min(width, COLUMNS), most=ROWS)
    head = f"Ranking after {rounds(session)}{_undecided(rankings)}; {caption(rankings[-1])}"
    return f"\n{wrap(head, min(width, COLUMNS))}\n{text}"


def _undecided(rankings: Sequence[Ranking]) -> str:
    """Return `` (2 of 4 arms inconclusive)``, of all points."""
    verdicts = [row for ranking in rankings for row in ranking.picks if row.against and row.verdict]
    undecided = sum(len(ranking.undecided) for ranking in rankings)
    return f" ({undecided} of {len(verdicts)} arms inconclusive)" if undecided and verdicts else ""


def make_observer(quiet: bool) -> Quiet:
    if quiet:
        return Quiet()
    return Live() if sys.stderr.isatty() else Lines()


def _where(run: PlanStep | Sample) -> str:
    which = f"{'traced ' if run.kind == TRACED else ''}round {run.round}" if run.round else "warm-up"
    return f"{which} {run.arm}{' ' if run.point else ''}{run.point}"
