"""The penalties of sessions that other programs track over time: one for each arm, point and figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.analyse import Analysis, analyse
from kit.analysis.session.outcome import Outcome
from kit.extra.exchange.analysis.tracked import tracked_outcomes
from kit.model.session import Session
from kit.report.format import units
from kit.report.format.machine import machine_name
from kit.report.format.sanitize import shown


@dataclass(frozen=True)
class Penalty:
    """A penalty as a factor: 1.056 is 5.6 % more than the baseline. ``low`` and ``high``: the individual 95 % interval,
    as in a history; None if there is none."""

    session: Session
    outcome: Outcome
    machine: str  # '' if all sessions ran on one
    mark: str  # where it was measured, unless on a host: a guest, imported or ''
    ratio: float

    @property
    def comparison(self) -> Comparison:
        return self.outcome.comparison

    @property
    def low(self) -> float | None:
        return self.comparison.low

    @property
    def high(self) -> float | None:
        return self.comparison.high

    @property
    def series(self) -> str:
        """Return the name that stays the same from session to session: ``smoke: layer:overlay2 / bare@ext4``."""
        comparison = self.comparison
        phase = "" if self.outcome.whole else f", {comparison.phase}"
        machine = f" on {self.machine}" if self.machine else ""
        mark = f" ({self.mark})" if self.mark else ""
        return f"{self.session.title}: {units.against(comparison)}{mark}{phase}{machine}"


@dataclass(frozen=True)
class Newest:
    """The newest session of each title, machine and mark, with its analysis."""

    session: Session
    analysis: Analysis
    machine: str  # '' if all ran on one

    @property
    def imported(self) -> bool:
        return self.session.labelled

    @property
    def guest(self) -> str:
        """Return ``qemu`` or ``uml``, without versions, which would make a new series; '' on a host."""
        return self.session.request.guest

    def penalties(self) -> Iterator[Penalty]:
        for outcome in tracked_outcomes(self.analysis):
            if outcome.comparison.ratio is not None:
                yield Penalty(self.session, outcome, self.machine, _mark(self.session), outcome.comparison.ratio)


def newest(sessions: Sequence[Session]) -> tuple[Newest, ...]:
    """Return the sessions that tell the present state, safe to show. Older ones of the same title, machine and mark are
    left out: in these formats a series has one value."""
    by_series: dict[tuple[str, str, str], Session] = {}
    for session in sorted(map(shown, sessions), key=lambda session: session.created):
        by_series[session.title, machine_name(session.facts), _mark(session)] = session
    several = len({machine for _, machine, _ in by_series}) > 1
    return tuple(
        Newest(session, analyse(session), machine if several else "") for (_, machine, _), session in by_series.items()
    )


def _mark(session: Session) -> str:
    return "imported" if session.labelled else session.request.guest
