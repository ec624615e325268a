from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from kit.core.errors import KitError, UsageError
from kit.model.session import DONE, INTERRUPTED
from kit.store import Store, open_store
from tests.first_schema import make_first_schema
from tests.nights import night
from tests.store.finding import check_finding
from tests.stored import SAMPLE, SESSION
from tests.stores import new_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "sub" / "kit.db")


def test_gives_back_what_was_put_in(store: Store) -> None:
    store.create(SESSION)
    store.add_sample(SESSION.id, SAMPLE)
    failed = replace(SAMPLE, block=2, status="failed", phases=(), error="no\n  | last line")
    store.add_sample(SESSION.id, failed)
    assert store.get(SESSION.id) == replace(SESSION, samples=(SAMPLE, failed))


def test_survives_the_process(tmp_path: Path) -> None:
    open_store("", tmp_path / "kit.db").create(SESSION)
    again = open_store(f"sqlite:///{tmp_path}/kit.db", tmp_path / "unused")
    assert again.get("last").id == SESSION.id


def test_updates(store: Store) -> None:
    store.create(SESSION)
    store.update(replace(SESSION, facts={"kernel": "7"}, not_run=()))
    store.set_status(SESSION.id, DONE)
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


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    open_store("", tmp_path / "kit.db").close()
    with create_engine(f"sqlite:///{tmp_path}/kit.db").begin() as connection:
        connection.execute(text("UPDATE kit_schema SET version = 99"))
    with pytest.raises(KitError, match="schema 99"):
        open_store("", tmp_path / "kit.db")


def test_a_store_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    plain = replace(SAMPLE.phases[0], reported=(), tasks=(), calls=(), profiles=())
    store = open_store("", tmp_path / "kit.db")
    store.create(SESSION)
    store.add_sample(SESSION.id, SAMPLE)
    store.close()
    make_first_schema(f"sqlite:///{tmp_path}/kit.db")
    again = open_store("", tmp_path / "kit.db")
    assert again.get("last").samples == (replace(SAMPLE, phases=(plain, SAMPLE.phases[1])),)
    new = replace(SAMPLE, block=2, point="jobs=2", repeats=1, memory_before=0.05)
    again.add_sample(SESSION.id, new)
    assert again.get("last").samples[1] == new


def test_a_store_brought_up_to_date_has_the_columns_of_a_new_one(tmp_path: Path) -> None:
    columns = []
    for name in ("new", "old"):
        url = f"sqlite:///{tmp_path}/{name}.db"
        open_store("", tmp_path / f"{name}.db").close()
        if name == "old":
            make_first_schema(url)
            open_store("", tmp_path / "old.db").close()
        with create_engine(url).begin() as connection:
            seen = inspect(connection)
            columns.append({
                (table, item["name"], item["nullable"])
                for table in seen.get_table_names()
                for item in seen.get_columns(table)
            })  # fmt: skip
    assert columns[0] == columns[1]


def test_flags_one_run(store: Store) -> None:
    store.create(SESSION)
    for point in ("jobs=1", "jobs=2"):
        store.add_sample(SESSION.id, replace(SAMPLE, point=point))
    store.set_flags(SESSION.id, SAMPLE.arm, "jobs=2", SAMPLE.block, "steal 9%")
    assert [item.flags for item in store.get("last").samples] == ["", "steal 9%"]


@pytest.mark.parametrize("url", ["nope://x", "sqlite:////nonexistent/dir/kit.db", "not a url"])
def test_bad_urls(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--store"):
        open_store(url, tmp_path / "kit.db")


def test_penalties_are_of_finished_sessions_alone(tmp_path: Path) -> None:
    store = open_store("", tmp_path / "kit.db")
    for session in (night(1, 0.1), replace(night(2, 0.1), status=INTERRUPTED)):
        store.add(session)
        store.keep_outcomes(session)
    engine = create_engine(f"sqlite:///{tmp_path}/kit.db")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT DISTINCT session FROM kit_penalties")).scalars().all() == ["2026-0001"]
    engine.dispose()


def test_slices_of_an_older_store_are_a_run_order(tmp_path: Path) -> None:
    """What schema 13 called slices; a session without such a fact keeps its facts."""
    url = f"sqlite:///{tmp_path}/kit.db"
    store = open_store(url, tmp_path / "kit.db")
    session = SESSION
    samples = (replace(SAMPLE, digests=(("image", "a"), ("slices", "0.5 s"))),)
    old = replace(session, facts={"kernel": "6", "slices": "0.5 s", "why slices": "noisy"}, samples=samples)
    store.add(old)
    store.add(replace(old, id="whole", facts={"kernel": "6", "slices": "off"}, samples=()))
    store.add(replace(old, id="none", facts={"kernel": "6"}, samples=()))
    store.close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("""UPDATE kit_sessions SET request = '{"slices": "0.5s", "rounds": 5}'"""))
        connection.execute(text("UPDATE kit_schema SET version = 13"))
    engine.dispose()
    store = open_store(url, tmp_path / "kit.db")
    found = store.get(session.id)
    assert found.facts == {"kernel": "6", "run order": "interleaved", "slice": "0.5 s", "why run order": "noisy"}
    assert (found.request.interleave, found.request.rounds) == ("0.5s", 5)
    assert {dict(item.digests).get("run order") for item in found.samples} == {"interleaved"}
    assert not any("slices" in dict(item.digests) for item in found.samples)
    assert store.get("whole").facts == {"kernel": "6", "run order": "sequential"}
    assert store.get("none").facts == {"kernel": "6"}
    store.close()
