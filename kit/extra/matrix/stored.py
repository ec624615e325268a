"""The matrix from stored sessions: of one class of machines, each scenario's newest session that has an arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kit.analysis.session.ranking import split_picks
from kit.core.errors import UsageError
from kit.extra.fleet.analysis.answer import SHARED, LeftOut
from kit.extra.fleet.analysis.cost import LEAST
from kit.extra.history.fleet_history import lot
from kit.extra.matrix.analysis.filling import find_compared, find_differences, find_different_work, find_missing
from kit.extra.matrix.analysis.matrix import Matrix, make_matrix
from kit.extra.matrix.analysis.pooled import pooled_rows
from kit.extra.matrix.analysis.row import MatrixRow, rows_of
from kit.model.arm import spelled
from kit.model.default_driver import common_drivers
from kit.model.fact import DEFAULT_REFERENCE, SEVERAL, WORKER
from kit.model.machine_class import class_of
from kit.model.plan import DEFAULT_MARGIN
from kit.model.session import DONE, Session
from kit.model.sweep import COPIES
from kit.store.schema.tables import machine_of
from kit.store.session_query import SessionFilter
from kit.store.store import Store

#: Why a session is no part of the matrix.
_VARIANTS = "compares commands or revisions, not arms alone"
#: Sessions of each scenario that are looked at, equally many of each machine; of these, sessions of one machine that
#: are read at most; machines of a class that are pooled at most.
_LOOKED_AT, _READ, _MACHINES = 60, 6, 40


@dataclass(frozen=True)
class MatrixQuestion:
    """``scenarios``: titles, all without any. ``arms``: the only ones that are shown. ``reference``: '' for the common
    default of the sessions. ``machine_class``: its name or the beginning of it; '' for that of the newest session that
    compares arms.
    ``since``: Unix time. ``metric``: '' for durable time. ``weights``: by scenario. ``sessions``: ids of the only ones
    that count; all without any."""

    scenarios: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    reference: str = ""
    machine_class: str = ""
    since: float | None = None
    metric: str = ""
    margin: float = DEFAULT_MARGIN
    weights: Mapping[str, float] = field(default_factory=dict)
    sessions: tuple[str, ...] = ()

    def counts(self, head: Session) -> bool:
        return not self.sessions or head.id in self.sessions


def find_matrix(store: Store, asked: MatrixQuestion) -> Matrix:
    """Return the matrix. Raises UsageError if no session matches."""
    found = _find_heads(store, asked)
    strange = [LeftOut("", head.id, why) for head in found if (why := _other_question(head))]
    heads = [head for head in found if not _other_question(head)]
    if not heads:
        raise UsageError(
            f"no session compares arms alone: {strange[0].session} {strange[0].why}",
            "run for example kit compare smoke",
        )
    classes = list(dict.fromkeys(class_of(item.facts) for item in sorted(heads, key=_newest_first)))
    named = [_class(classes, asked.machine_class)] if asked.machine_class else classes
    chosen = _choose_class(store, asked, heads, named)
    arms = tuple(map(spelled, asked.arms))
    made = make_matrix(chosen.name, chosen.rows, chosen.reference, asked.margin, asked.weights, arms)
    others = tuple(name for name in classes if name != chosen.name)
    return replace(made, classes=others, without=chosen.without, left_out=(*chosen.left_out, *strange))


@dataclass(frozen=True)
class _Class:
    """One class of machines: its rows, the scenarios without any, and the sessions that do not count."""

    name: str
    reference: str
    rows: tuple[MatrixRow, ...]
    without: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


def _choose_class(store: Store, asked: MatrixQuestion, heads: Sequence[Session], named: Sequence[str]) -> _Class:
    """Return the first of these classes whose sessions compare arms. Raises UsageError without one."""
    reference = ""
    for name in named:
        found = _of_class(store, asked, [item for item in heads if class_of(item.facts) == name], name)
        if found.rows:
            return found
        reference = reference or found.reference
    arms = sorted({arm for head in heads if class_of(head.facts) in named for arm in split_picks(_ran(head))[0]})
    fix = f"use one of: {', '.join(arms)}" if arms else "compare two arms: kit compare smoke"
    raise UsageError(f"no finished session compares an arm with {reference or 'another'}", fix)


def _other_question(head: Session) -> str:
    """Return why the session is none of arms alone; '' if it is one."""
    return _VARIANTS if head.request.commands or head.request.revisions else ""


def _of_class(store: Store, asked: MatrixQuestion, heads: Sequence[Session], name: str) -> _Class:
    """Return the rows of one class. ``heads``: its sessions that are known so far, one of each machine at least."""
    by_title: dict[str, list[Session]] = {}
    for head in sorted(heads, key=_newest_first):
        by_title.setdefault(head.title, []).append(head)
    reference = spelled(asked.reference) if asked.reference else choose_reference(by_title)
    machines = tuple(sorted({machine_of(head.facts) for head in heads}))
    rows: list[MatrixRow] = []
    left: list[LeftOut] = []
    without: list[str] = []
    for title in sorted(by_title):
        wanted = SessionFilter(title, reference, status=DONE, since=asked.since, machines=machines)
        listed = [head for head in store.newest_of_each(wanted, _LOOKED_AT) if class_of(head.facts) == name]
        ran = [head for head in listed if reference in _ran(head) and not _other_question(head) and asked.counts(head)]
        of_title: dict[str, MatrixRow] = {}
        for alike in _by_copies(ran):
            found, out = _read(store, title, alike, reference, asked)
            for row in found:
                of_title.setdefault(row.point, row)
            left += out
        rows += of_title.values()
        without += [] if of_title else [title]
    return _Class(name, reference, tuple(rows), tuple(without), tuple(left))


def _by_copies(heads: Sequence[Session]) -> Iterable[Sequence[Session]]:
    """Return the sessions in groups that run as many copies at once, that of the newest first. Other numbers of copies
    are other work: a session of four replaces none of one."""
    found: dict[str, list[Session]] = {}
    for head in heads:
        found.setdefault(dict(head.request.params).get(COPIES, "1"), []).append(head)
    return found.values()


def _newest_first(head: Session) -> tuple[float, str]:
    return -head.created, head.id


def _find_heads(store: Store, asked: MatrixQuestion) -> list[Session]:
    """Return sessions without their samples. Raises UsageError."""
    found: list[Session] = []
    for title in asked.scenarios or store.titles():
        listed = store.newest_of_each(SessionFilter(title, status=DONE, since=asked.since), _LOOKED_AT)
        if not listed and asked.scenarios:
            titles = ", ".join(store.titles()[:20])
            raise UsageError(f"no finished session of '{title}'", f"use one of: {titles}" if titles else "run it first")
        found += filter(asked.counts, listed)
    if not found:
        raise UsageError("no finished session yet", "list sessions with kit sessions, or run kit compare")
    return found


def _class(classes: Sequence[str], wanted: str) -> str:
    """Return the class of that name, or of that beginning. Raises UsageError."""
    if wanted in classes:
        return wanted
    found = [name for name in classes if name.startswith(wanted)]
    if len(found) != 1:
        raise UsageError(
            f"--class {wanted}: {len(found) or 'no'} classes begin so", f"use one of: {'; '.join(classes)}"
        )
    return found[0]


def choose_reference(by_title: Mapping[str, Sequence[Session]]) -> str:
    """Return the arm to compare with: of the default references of the newest sessions, and of the common drivers'
    layers, that which ran in most scenarios; else the pick that did; '' without any."""
    newest = [listed[0] for listed in by_title.values()]
    named = [DEFAULT_REFERENCE.text(head.facts) for head in sorted(newest, key=_newest_first)]
    common = [f"layer:{words}" for words in common_drivers()]
    count = Counter(arm for listed in by_title.values() for arm in {arm for head in listed for arm in _ran(head)})
    picks = [arm for head in newest for arm in split_picks(_ran(head))[0]]
    known = [arm for arm in (*named, *common) if count[arm]] or picks
    return max(known, key=lambda arm: count[arm], default="")


def _ran(head: Session) -> tuple[str, ...]:
    missing = {item.arm for item in head.not_run}
    return tuple(arm for arm in head.arms if arm not in missing)


def _read(
    store: Store, title: str, heads: Sequence[Session], reference: str, asked: MatrixQuestion
) -> tuple[list[MatrixRow], Sequence[LeftOut]]:
    """Return the rows of one scenario, and the sessions that do not count. Machines without enough sessions of the same
    work are not pooled: the newest session counts. ``heads``: the newest first."""
    shared = [head for head in heads if SEVERAL in WORKER.text(head.facts)]
    left = [LeftOut("", head.id, SHARED) for head in shared]
    newest: dict[str, Session] = {}
    for head in heads:
        if head not in shared:
            newest.setdefault(machine_of(head.facts), head)
    if len(newest) >= LEAST:
        drawn = sorted(newest, key=lot)[:_MACHINES]
        rows, out = pooled_rows(
            title, (store.get(newest[name].id) for name in drawn), reference, asked.metric, asked.margin
        )
        if any(cell.measured for row in rows for cell in row.cells):
            return rows, [*left, *out]
    sessions, unlike = _few(store, [head for head in heads if head not in shared], reference)
    return rows_of(sessions, reference, asked.metric, asked.margin), [*left, *unlike]


def _few(store: Store, heads: Sequence[Session], reference: str) -> tuple[list[Session], list[LeftOut]]:
    """Return the newest session, and older ones of the same work on the same machine that add an arm, or an interval
    where newer ones have a single round; and those that would, but are of other work or another machine."""
    found: list[Session] = []
    left: list[LeftOut] = []
    known: set[str] = set()
    reads = 0
    for head in heads:
        arms = set(split_picks(_ran(head))[0])
        if not arms - known:
            continue
        why = find_differences(found[0], head) if found else ""
        if not why and reads < _READ:
            reads += 1
            session = store.get(head.id)
            why = find_different_work(found[0], session, reference) if found else find_missing(session, reference)
            if not why:
                found.append(session)
                known |= find_compared(session, reference)
        if why:
            left.append(LeftOut("", head.id, why))
    return found, left
