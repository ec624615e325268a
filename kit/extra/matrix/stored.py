"""The matrix from stored sessions: of one class of machines, each scenario's newest session that has an arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kit.analysis.fleet.answer import SHARED, LeftOut
from kit.analysis.fleet.cost import LEAST
from kit.analysis.session.ranking import split_picks
from kit.core.errors import UsageError
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
    """Which sessions of the store a matrix is made of, and how."""

    scenarios: tuple[str, ...] = ()  # titles; all without any
    arms: tuple[str, ...] = ()  # the only ones that are shown
    reference: str = ""  # '' for the common default of the sessions
    machine_class: str = ""  # its name, or the beginning of it; '' for that of the newest session that compares arms
    since: float | None = None  # Unix time
    metric: str = ""  # '' for durable time
    margin: float = DEFAULT_MARGIN
    weights: Mapping[str, float] = field(default_factory=dict)  # by scenario
    sessions: tuple[str, ...] = ()  # ids of the only ones that count; all without any

    def counts(self, head: Session) -> bool:
        return not self.sessions or head.id in self.sessions


def find_matrix(store: Store, question: MatrixQuestion) -> Matrix:
    """Return the matrix. Raises UsageError if no session matches."""
    candidates = _find_heads(store, question)
    strange = [LeftOut("", head.id, why) for head in candidates if (why := _other_question(head))]
    heads = [head for head in candidates if not _other_question(head)]
    if not heads:
        raise UsageError(
            f"no session compares arms alone: {strange[0].session} {strange[0].why}",
            "run for example kit compare smoke",
        )
    classes = list(dict.fromkeys(class_of(head.facts) for head in sorted(heads, key=_newest_first)))
    searched = [_class(classes, question.machine_class)] if question.machine_class else classes
    chosen = _choose_class(store, question, heads, searched)
    arms = tuple(map(spelled, question.arms))
    matrix = make_matrix(chosen.name, chosen.rows, chosen.reference, question.margin, question.weights, arms)
    others = tuple(name for name in classes if name != chosen.name)
    return replace(matrix, classes=others, without=chosen.without, left_out=(*chosen.left_out, *strange))


@dataclass(frozen=True)
class _Class:
    """One class of machines: its rows, the scenarios without any, and the sessions that do not count."""

    name: str
    reference: str
    rows: tuple[MatrixRow, ...]
    without: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


def _choose_class(store: Store, question: MatrixQuestion, heads: Sequence[Session], classes: Sequence[str]) -> _Class:
    """Return the first of these classes whose sessions compare arms. Raises UsageError without one."""
    reference = ""
    for name in classes:
        class_rows = _of_class(store, question, [head for head in heads if class_of(head.facts) == name], name)
        if class_rows.rows:
            return class_rows
        reference = reference or class_rows.reference
    arms = sorted({arm for head in heads if class_of(head.facts) in classes for arm in split_picks(_ran(head))[0]})
    fix = f"use one of: {', '.join(arms)}" if arms else "compare two arms: kit compare smoke"
    raise UsageError(f"no finished session compares an arm with {reference or 'another'}", fix)


def _other_question(head: Session) -> str:
    """Return why the session is none of arms alone; '' if it is one."""
    return _VARIANTS if head.request.commands or head.request.revisions else ""


def _of_class(store: Store, question: MatrixQuestion, heads: Sequence[Session], name: str) -> _Class:
    """Return the rows of one class. ``heads``: its sessions that are known so far, one of each machine at least."""
    by_title: dict[str, list[Session]] = {}
    for head in sorted(heads, key=_newest_first):
        by_title.setdefault(head.title, []).append(head)
    reference = spelled(question.reference) if question.reference else choose_reference(by_title)
    machines = tuple(sorted({machine_of(head.facts) for head in heads}))
    rows: list[MatrixRow] = []
    left_out: list[LeftOut] = []
    without: list[str] = []
    for title in sorted(by_title):
        session_filter = SessionFilter(title, reference, status=DONE, since=question.since, machines=machines)
        listed = [head for head in store.newest_of_each(session_filter, _LOOKED_AT) if class_of(head.facts) == name]
        ran = [
            head for head in listed if reference in _ran(head) and not _other_question(head) and question.counts(head)
        ]
        of_title: dict[str, MatrixRow] = {}
        for alike in _by_copies(ran):
            group_rows, out = _read(store, title, alike, reference, question)
            for row in group_rows:
                of_title.setdefault(row.point, row)
            left_out += out
        rows += of_title.values()
        without += [] if of_title else [title]
    return _Class(name, reference, tuple(rows), tuple(without), tuple(left_out))


def _by_copies(heads: Sequence[Session]) -> Iterable[Sequence[Session]]:
    """Return the sessions in groups that run as many copies at once, that of the newest first. Other numbers of copies
    are other work: a session of four replaces none of one."""
    groups: dict[str, list[Session]] = {}
    for head in heads:
        groups.setdefault(dict(head.request.params).get(COPIES, "1"), []).append(head)
    return groups.values()


def _newest_first(head: Session) -> tuple[float, str]:
    return -head.created, head.id


def _find_heads(store: Store, question: MatrixQuestion) -> list[Session]:
    """Return sessions without their samples. Raises UsageError."""
    heads: list[Session] = []
    for title in question.scenarios or store.titles():
        listed = store.newest_of_each(SessionFilter(title, status=DONE, since=question.since), _LOOKED_AT)
        if not listed and question.scenarios:
            titles = ", ".join(store.titles()[:20])
            raise UsageError(f"no finished session of '{title}'", f"use one of: {titles}" if titles else "run it first")
        heads += filter(question.counts, listed)
    if not heads:
        raise UsageError("no finished session yet", "list sessions with kit sessions, or run kit compare")
    return heads


def _class(classes: Sequence[str], prefix: str) -> str:
    """Return the class of that name, or of that beginning. Raises UsageError."""
    if prefix in classes:
        return prefix
    matches = [name for name in classes if name.startswith(prefix)]
    if len(matches) != 1:
        raise UsageError(
            f"--class {prefix}: {len(matches) or 'no'} classes begin so", f"use one of: {'; '.join(classes)}"
        )
    return matches[0]


def choose_reference(by_title: Mapping[str, Sequence[Session]]) -> str:
    """Return the arm to compare with: of the default references of the newest sessions, and of the common drivers'
    layers, that which ran in most scenarios; else the pick that did; '' without any."""
    newest = [listed[0] for listed in by_title.values()]
    references = [DEFAULT_REFERENCE.text(head.facts) for head in sorted(newest, key=_newest_first)]
    common = [f"layer:{words}" for words in common_drivers()]
    count = Counter(arm for listed in by_title.values() for arm in {arm for head in listed for arm in _ran(head)})
    picks = [arm for head in newest for arm in split_picks(_ran(head))[0]]
    choices = [arm for arm in (*references, *common) if count[arm]] or picks
    return max(choices, key=lambda arm: count[arm], default="")


def _ran(head: Session) -> tuple[str, ...]:
    missing = {not_run.arm for not_run in head.not_run}
    return tuple(arm for arm in head.arms if arm not in missing)


def _read(
    store: Store, title: str, heads: Sequence[Session], reference: str, question: MatrixQuestion
) -> tuple[list[MatrixRow], Sequence[LeftOut]]:
    """Return the rows of one scenario, and the sessions that do not count. Machines without enough sessions of the same
    work are not pooled: the newest session counts. ``heads``: the newest first."""
    shared = [head for head in heads if SEVERAL in WORKER.text(head.facts)]
    left_out = [LeftOut("", head.id, SHARED) for head in shared]
    newest: dict[str, Session] = {}
    for head in heads:
        if head not in shared:
            newest.setdefault(machine_of(head.facts), head)
    if len(newest) >= LEAST:
        drawn = sorted(newest, key=lot)[:_MACHINES]
        rows, out = pooled_rows(
            title, (store.get(newest[name].id) for name in drawn), reference, question.metric, question.margin
        )
        if any(cell.measured for row in rows for cell in row.cells):
            return rows, [*left_out, *out]
    sessions, unlike = _few(store, [head for head in heads if head not in shared], reference)
    return rows_of(sessions, reference, question.metric, question.margin), [*left_out, *unlike]


def _few(store: Store, heads: Sequence[Session], reference: str) -> tuple[list[Session], list[LeftOut]]:
    """Return the newest session, and older ones of the same work on the same machine that add an arm, or an interval
    where newer ones have a single round; and those that would, but are of other work or another machine."""
    sessions: list[Session] = []
    left_out: list[LeftOut] = []
    compared: set[str] = set()
    reads = 0
    for head in heads:
        arms = set(split_picks(_ran(head))[0])
        if not arms - compared:
            continue
        why = find_differences(sessions[0], head) if sessions else ""
        if not why and reads < _READ:
            reads += 1
            session = store.get(head.id)
            why = find_different_work(sessions[0], session, reference) if sessions else find_missing(session, reference)
            if not why:
                sessions.append(session)
                compared |= find_compared(session, reference)
        if why:
            left_out.append(LeftOut("", head.id, why))
    return sessions, left_out
