"""Which older sessions may fill a row: those of the same work on the same machine. Pure."""

from __future__ import annotations

from kit.analysis.runs.run_table import Runs
from kit.analysis.session.entry import Conditions, conditions, differences
from kit.model.fact import ASKED, GUEST, MACHINE
from kit.model.session import Session

#: Rounds of an interval.
_LEAST_ROUNDS = 2
_KEYS = frozenset(kind.key for kind in (*ASKED, GUEST))


def find_differences(newest: Session, older: Session) -> str:
    """Return in what the older session's kit, machine or settings differ; '' where they agree. Reads no samples."""
    machines = (MACHINE.text(session.facts) for session in (newest, older))
    before, after = (_asked(session) for session in (newest, older))
    changes = [] if newest.kit_version == older.kit_version else [f"kit: {newest.kit_version} → {older.kit_version}"]
    changes += ["another machine"] if len(set(machines)) > 1 else []
    return "; ".join([*changes, *map(str, differences(before, after))])


def find_different_work(newest: Session, older: Session, reference: str) -> str:
    """Return in what the reference's runs differ: scenario, sources, command, image or program; '' where they agree.

    ``reference``: the arm that both have run."""
    before, after = (_digests(session, reference) for session in (newest, older))
    shared = [point for point in before if point in after]
    if not shared:
        return f"no run of {reference} at the same point"
    changes = dict.fromkeys(
        str(difference) for point in shared for difference in differences(before[point], after[point])
    )
    return "; ".join(changes)


def find_missing(session: Session, reference: str) -> str:
    """Return why a session can't be the first of a row; '' if it has a run of the reference."""
    return "" if Runs(session.samples).ran(reference) else f"no run of {reference} counts"


def find_compared(session: Session, reference: str) -> set[str]:
    """Return the arms that have an interval against the reference: two rounds or more contain both."""
    runs = Runs(session.samples)
    keys = [((arm, point), (reference, point)) for arm in session.arms for point in runs.points]
    return {
        pair[0][0] for pair in keys if all(runs.has(key) for key in pair) and runs.common(pair)[0].size >= _LEAST_ROUNDS
    }


def _asked(session: Session) -> Conditions:
    return Conditions({key: text for key, text in conditions(session).facts.items() if key in _KEYS})


def _digests(session: Session, reference: str) -> dict[str, Conditions]:
    """Return the digests of the reference's first run, by point."""
    runs = Runs(session.samples)
    points = [point for point in runs.points if runs.has((reference, point))]
    return {point: Conditions({}, dict(runs.samples((reference, point))[0].digests)) for point in points}
