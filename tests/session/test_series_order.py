"""A night takes the run order of its series: the pilot run of a short command would choose another one by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.analysis.runs.waiting import Waiting
from kit.host.machine import read_host
from kit.model.fact import MACHINE, RUN_ORDER, RUN_ORDER_WHY, SLICE
from kit.model.sample import INTERLEAVED, SEQUENTIAL
from kit.model.session import DONE, FAILED, Request, Session
from kit.session.measure.pilot import Pilot
from kit.session.plan.interleave_policy import decide
from kit.session.plan.planning import prepare
from kit.session.plan.series_order import keep_order
from kit.session.start import new_session
from kit.store import Store
from tests.stores import new_store

HOST = replace(read_host(), root=True)
REQUEST = Request(command=("make",), title="project", arms=("bare", "layer:overlay2"), rounds=3)
SHORT, LONG = 0.25, 10.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "kit.db")


def held(store: Store, request: Request, seconds: float, machine: str = "m", status: str = DONE) -> Session:
    """A night whose pilot run takes this time, stored."""
    prepared = prepare(request, HOST)
    session = keep_order(new_session(prepared).with_facts([MACHINE.fact(machine)]), prepared, HOST, store)

    def pilot() -> Sequence[Pilot]:
        return (Pilot("bare", seconds, Waiting(0.0, 0.0), ""),)

    session = replace(session.with_facts(decide(session, prepared, HOST, pilot)[1]), status=status)
    store.add(session)
    return session


def order(session: Session) -> str:
    return RUN_ORDER.text(session.facts)


@pytest.mark.parametrize(("first", "then", "stays"), [(SHORT, LONG, SEQUENTIAL), (LONG, SHORT, INTERLEAVED)])
def test_the_order_of_the_first_night_stays(first: float, then: float, stays: str, store: Store) -> None:
    nights = [held(store, REQUEST, seconds) for seconds in (first, then, then)]
    assert [order(night) for night in nights] == [stays] * 3
    assert len({SLICE.text(night.facts) for night in nights}) == 1
    before = RUN_ORDER_WHY.text(nights[0].facts)
    assert [RUN_ORDER_WHY.text(night.facts) for night in nights[1:]] == [f"as before in this series: {before}"] * 2


@pytest.mark.parametrize("change", [{"interleave": "0.5s"}, {"command": ("ninja",)}, {"cache": "cold"}])
def test_what_the_user_changes_is_chosen_again(change: dict[str, Any], store: Store) -> None:
    assert order(held(store, REQUEST, SHORT)) == SEQUENTIAL
    assert order(held(store, replace(REQUEST, **change), LONG)) == INTERLEAVED


def test_more_rounds_or_arms_change_no_order(store: Store) -> None:
    held(store, REQUEST, SHORT)
    more = replace(REQUEST, rounds=5, arms=(*REQUEST.arms, "bind:overlay2"))
    assert order(held(store, more, LONG)) == SEQUENTIAL


def test_an_order_that_the_user_named_is_not_kept(store: Store) -> None:
    assert order(held(store, replace(REQUEST, interleave="off"), LONG)) == SEQUENTIAL
    assert order(held(store, REQUEST, LONG)) == INTERLEAVED


def test_another_machine_an_unfinished_session_and_one_of_one_round_are_no_series(store: Store) -> None:
    held(store, REQUEST, SHORT, machine="other")
    held(store, REQUEST, SHORT, status=FAILED)
    held(store, replace(REQUEST, rounds=1), LONG)
    assert order(held(store, REQUEST, LONG)) == INTERLEAVED


def test_arms_that_can_not_be_interleaved_are_sequential_whatever_was_before(store: Store) -> None:
    assert order(held(store, REQUEST, LONG)) == INTERLEAVED
    limited = replace(REQUEST, arms=("bare", "layer:overlay2+cpus=1"))
    assert order(held(store, limited, LONG)) == SEQUENTIAL
