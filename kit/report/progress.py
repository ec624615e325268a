"""Live progress: a table and a line that move on a terminal, plain lines elsewhere, nothing with --quiet."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from typing import Any

from kit.core.visible import printable
from kit.model.plan import PlanStep
from kit.model.sample import Sample
from kit.model.session import Session
from kit.report import units

#: Machines whose runs are shown at once, those that began one last: as many as a terminal holds beside the rest.
_MACHINES = 10
#: The ranking is made anew when so many times has passed what it took the last time: of a thousand machines each ends a
#: round every moment.
_RANK_AGAIN = 20


class Quiet:
    """Says nothing but what went wrong."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._samples: list[Sample] = []
        self._machine = ""

    def machine(self, name: str) -> None:
        """What it is told next is of this machine of several; '' for of none."""
        self._machine = name

    @property
    def latest(self) -> Session | None:
        """The session with all that it has measured so far; None before it began."""
        found = {(item.kind, item.block, item.arm, item.point): item for item in self._samples}  # a round made again
        return replace(self._session, samples=tuple(found.values())) if self._session else None

    def began(self, session: Session) -> None:
        self._session, self._samples = session, list(session.samples)

    def tell(self, text: str) -> None:
        return None

    def planned(self, steps: int, done: int) -> None:
        return None

    def extended(self, steps: int, reason: str) -> None:
        return None

    def running(self, step: PlanStep, phase: str) -> None:
        return None

    def finished(self, step: PlanStep, sample: Sample) -> None:
        self._samples.append(sample)
        if sample.status != "ok":
            print(printable(self._by(f"{_where(step)} failed: {sample.error}")), file=sys.stderr)

    def _by(self, text: str) -> str:
        """With the machine that it is of, where there are several."""
        return f"{self._machine}: {text}" if self._machine else text

    def close(self) -> None:
        return None


@dataclass
class _Pace:
    """Of one machine: when its first run began and its last one ended, by the monotonic clock, and how many it made."""

    began: float
    ended: float = 0.0
    runs: int = 0


class Lines(Quiet):
    """One plain line per event on stderr, without control codes."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0
        self._finished = 0
        self._paces: dict[str, _Pace] = {}

    def tell(self, text: str) -> None:
        print(printable(self._by(text)), file=sys.stderr, flush=True)

    def planned(self, steps: int, done: int) -> None:
        self._steps, self._finished, self._paces = steps, 0, {}
        already = f", {done} done before" if done else ""
        self.tell(f"{steps} runs{already}")

    def extended(self, steps: int, reason: str) -> None:
        self._steps = max(self._steps, self._finished + steps)
        self.tell(reason)

    def running(self, step: PlanStep, phase: str) -> None:
        self._pace()

    def _pace(self) -> _Pace:
        return self._paces.setdefault(self._machine, _Pace(time.monotonic()))

    def finished(self, step: PlanStep, sample: Sample) -> None:
        self._samples.append(sample)
        self._finished += 1
        pace = self._pace()
        pace.ended, pace.runs = time.monotonic(), pace.runs + 1
        real = sum(phase.real or 0 for phase in sample.phases)
        what = f"real {units.seconds(real)}" if sample.status == "ok" else f"FAILED: {sample.error}"
        self.tell(f"[{self._finished}/{self._steps}] {_where(step)}  {what}{self._left()}")

    def _left(self) -> str:
        """As long as runs have taken so far, on as many machines as are at work."""
        rest = self._steps - self._finished
        if not rest:
            return ""
        spent = sum(pace.ended - pace.began for pace in self._paces.values() if pace.runs)
        return f"  ({clock(spent / self._finished * rest / len(self._paces))} left)"


class Live(Lines):
    """On a terminal: finished runs as lines, below them the ranking so far, which is made anew after every round as far
    as that takes little time, and what runs now, since when, and how long it may take."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.live import Live as Region
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._block = 1
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

    def tell(self, text: str) -> None:
        self._region.console.print(printable(self._by(text)), highlight=False, markup=False)

    def planned(self, steps: int, done: int) -> None:
        super().planned(steps, done)
        self._bar.reset(self._task, total=steps)

    def extended(self, steps: int, reason: str) -> None:
        super().extended(steps, reason)
        self._bar.update(self._task, total=self._steps)

    def running(self, step: PlanStep, phase: str) -> None:
        super().running(step, phase)
        began = time.monotonic()
        if step.block > self._block and began >= self._rank_at:  # a round is whole, the next one's first run not begun
            self._block = step.block
            self._show_ranking()
            now = time.monotonic()
            self._rank_at = now + _RANK_AGAIN * (now - began) if self._machine else 0.0
        self._bar.update(self._row(), description=printable(self._by(f"{_where(step)}: {phase}")))

    def _row(self) -> Any:
        """The session's, or that of one of several machines, which it takes over from who began a run first."""
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

    def finished(self, step: PlanStep, sample: Sample) -> None:
        super().finished(step, sample)
        self._bar.update(self._task, completed=self._finished, left=self._left())

    def close(self) -> None:
        self._region.stop()


def so_far(session: Session | None, width: int) -> str:
    """The ranking of what has been measured, for the time until the session ends; '' where there is none yet."""
    if session is None:
        return ""
    from kit.analysis.columns import Runs
    from kit.analysis.compare import compare
    from kit.analysis.ranking import rank
    from kit.report.answer import COLUMNS, ROWS
    from kit.report.course import rounds
    from kit.report.ranking import caption, table

    runs = Runs(session.samples)
    rankings = rank(runs, session.arms)
    if not rankings:
        return ""
    # What it shows and no more: the next run waits for it.
    found = compare(runs, session.baselines, (rankings[-1].metric,), whole=True)
    text = table(rankings[-1], found, min(width, COLUMNS), most=ROWS)
    return f"\nafter {rounds(session)}: {caption(rankings[-1])}\n{text}"


def make_observer(quiet: bool) -> Quiet:
    if quiet:
        return Quiet()
    return Live() if sys.stderr.isatty() else Lines()


def _where(step: PlanStep) -> str:
    which = f"{'traced ' if step.traced else ''}round {step.block}" if step.block else "warm-up"
    return f"{which} {step.arm}{' ' if step.point else ''}{step.point}"


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
