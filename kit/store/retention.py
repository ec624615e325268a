"""Old sessions of a store, and those among them that stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kit.analysis.session.entry import Entry
from kit.core.errors import UsageError
from kit.extensions import added
from kit.model.event import FactsKnown
from kit.model.fact import KEPT
from kit.model.session import DONE, RUNNING, Session
from kit.store.session_query import SessionFilter
from kit.store.store import Store

#: A session that began before this number of seconds does not run any more, whatever its status says.
_LONGEST = 7 * 86400.0
_PAGE = 500
#: Nobody pauses longer between two sessions, or looks at what is removed after that.
_PAUSE = 30 * 86400.0


@dataclass(frozen=True)
class Retention:
    """A rule. ``before``: sessions that began later stay (Unix time). ``changes``: so do those at and next to a change
    point of real time of the whole run. ``titles``: only sessions of these titles are removed, with the conditions that
    their histories ignore; None: all, with ``across``. ``machines``: only their sessions, by id; empty: of all."""

    before: float
    changes: bool = False
    titles: Mapping[str, Sequence[str]] | None = None
    across: Sequence[str] = ()
    machines: tuple[str, ...] = ()
    confirm: int = 0  # sessions that confirm a change; 0: the usual number


@dataclass(frozen=True)
class Expired:
    """``sessions``: to be removed, without samples, newest first. ``kept``: older ones that stay, by id, and why."""

    sessions: tuple[Session, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Limit:
    """``before``: what began earlier is older than the rule allows (Unix time). ``pause``: seconds without a session
    that count for nothing, since the clock may have been set forward in them; 0 without any."""

    before: float
    pause: float = 0.0


def find_limit(store: Store, keep: float, now: float) -> Limit:
    """Return the limit of a rule that keeps what is younger than ``keep`` seconds. Sessions show that time has passed:
    a clock that is ahead by years, as after a dead battery, makes all of them old at once."""
    at, remaining, pause = now, keep, 0.0
    for start in store.starts(now):
        if at - start >= max(keep, _PAUSE):
            pause += at - start
        elif at - start >= remaining:
            break
        else:
            remaining -= at - start
        at = start
    return Limit(at - remaining, pause)


def find_expired(store: Store, rule: Retention, now: float) -> Expired:
    """Return what the rule removes. Outcomes that the store lacks are computed for histories."""
    selections = (SessionFilter(title, until=rule.before, machines=rule.machines) for title in _titles(rule))
    old = [session for selection in selections for session in _heads(store, selection)]
    old = [session for session in old if session.status != RUNNING or session.created < now - _LONGEST]
    if not rule.changes:
        return Expired(tuple(old))
    reasons = {session.id: KEPT.text(session.facts) for session in old if KEPT.text(session.facts)}
    for title in dict.fromkeys(session.title for session in old):
        across = rule.titles.get(title, ()) if rule.titles is not None else rule.across
        listed = list(_heads(store, SessionFilter(title, status=DONE)))
        arms = tuple(dict.fromkeys(arm for session in listed for arm in session.arms))
        turning = _find_turning(store.entries(listed, arms), across, rule.confirm)
        reasons |= {
            session.id: turning[session.id] for session in old if session.id in turning and session.id not in reasons
        }
    return Expired(tuple(session for session in old if session.id not in reasons), reasons)


def remove_expired(store: Store, expired: Expired) -> None:
    """Remove the sessions. Each one that stays gets a fact that says why: later, its history may be too short to show
    the change."""
    for name, why in expired.kept.items():
        head = replace(store.get(name), samples=())
        if not KEPT.text(head.facts):
            store.take(name, [FactsKnown.of(head.with_facts([KEPT.fact(why)]))])
    store.remove([session.id for session in expired.sessions])


def _find_turning(entries: Sequence[Entry], across: Sequence[str], confirm: int) -> Mapping[str, str]:
    find_turning: Callable[..., Mapping[str, str]] | None = next(added("turning"), None)
    if find_turning:
        return find_turning(entries, across, confirm)
    raise UsageError("this kit finds no changes", "leave out --keep-changes")


def _titles(rule: Retention) -> Sequence[str]:
    return ("",) if rule.titles is None else tuple(rule.titles)


def _heads(store: Store, selection: SessionFilter) -> Iterator[Session]:
    skip = 0
    while listed := store.list(selection, _PAGE, skip):
        yield from listed
        skip += _PAGE
