from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from kit.core.errors import UsageError
from kit.model.event import FactsKnown, RunFlagged, SampleTaken, StatusChanged
from kit.model.session import DONE
from kit.store import Store, open_store
from tests.store.finding import check_finding
from tests.stored import SAMPLE, SESSION
from tests.stores import new_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "sub" / "kit.db")


def test_gives_back_what_was_put_in(store: Store) -> None:
    store.create(SESSION)
    store.take(SESSION.id, [SampleTaken(SAMPLE)])
    failed = replace(SAMPLE, round=2, status="failed", phases=(), error="no\n  | last line")
    store.take(SESSION.id, [SampleTaken(failed)])
    assert store.get(SESSION.id) == replace(SESSION, samples=(SAMPLE, failed))


def test_survives_the_process(tmp_path: Path) -> None:
    open_store("", tmp_path / "kit.db").create(SESSION)
    again = open_store(f"sqlite:///{tmp_path}/kit.db", tmp_path / "unused")
    assert again.get("last").id == SESSION.id


def test_updates(store: Store) -> None:
    store.create(SESSION)
    store.take(SESSION.id, [FactsKnown({"kernel": "7"}, ())])
    store.take(SESSION.id, [StatusChanged(DONE)])
    found = store.get("last")
    assert (found.facts, found.not_run, found.status) == ({"kernel": "7"}, (), DONE)


def test_finds_by_id_prefix_and_last_and_lists_newest_first(store: Store) -> None:
    store.create(SESSION)
    store.create(replace(SESSION, id="20260102-000000-bbbb", created=2000.0))
    assert [item.id for item in store.list()] == ["20260102-000000-bbbb", SESSION.id]
    assert store.get("20260102").id == "20260102-000000-bbbb"
    with pytest.raises(UsageError, match="2 sessions begin with '2026'"):
        store.get("2026")
    with pytest.raises(UsageError, match="no session 'x'"):
        store.get("x")


def test_finds_sessions_by_what_they_are(store: Store) -> None:
    check_finding(store)


@pytest.mark.parametrize(("version", "fix"), [(16, "--store"), (99, "update the kit")])
def test_the_store_of_another_kit_is_refused(version: int, fix: str, tmp_path: Path) -> None:
    open_store("", tmp_path / "kit.db").close()
    with create_engine(f"sqlite:///{tmp_path}/kit.db").begin() as connection:
        connection.execute(text(f"UPDATE kit_schema SET version = {version}"))
    with pytest.raises(UsageError, match=f"schema {version}, this kit") as found:
        open_store("", tmp_path / "kit.db")
    assert fix in found.value.hint


def test_flags_one_run(store: Store) -> None:
    store.create(SESSION)
    for point in ("jobs=1", "jobs=2"):
        store.take(SESSION.id, [SampleTaken(replace(SAMPLE, point=point))])
    store.take(SESSION.id, [RunFlagged(SAMPLE.arm, "jobs=2", SAMPLE.round, "steal 9%")])
    assert [item.flags for item in store.get("last").samples] == ["", "steal 9%"]


@pytest.mark.parametrize("url", ["nope://x", "sqlite:////nonexistent/dir/kit.db", "not a url"])
def test_bad_urls(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--store"):
        open_store(url, tmp_path / "kit.db")
