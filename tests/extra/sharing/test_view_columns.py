"""The views that other programs read: their columns are those that the page describes."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from kit.extra.sharing.views import COLUMNS, VIEWS
from kit.model.session import INTERRUPTED
from kit.store import open_store
from tests.nights import night
from tests.stores import new_store


@pytest.mark.parametrize("view", VIEWS)
def test_each_column_of_a_view_is_described_once(view: str, tmp_path: Path) -> None:
    new_store(tmp_path / "kit.db").close()
    engine = create_engine(f"sqlite:///{tmp_path}/kit.db")
    columns = [column["name"] for column in inspect(engine).get_columns(view)]
    engine.dispose()
    assert sorted(name for names in COLUMNS[view] for name in names) == sorted(columns)


def test_penalties_are_of_finished_sessions_alone(tmp_path: Path) -> None:
    store = open_store("", tmp_path / "kit.db")
    for session in (night(1, 0.1), replace(night(2, 0.1), status=INTERRUPTED)):
        store.add(session)
        store.keep_outcomes(session)
    engine = create_engine(f"sqlite:///{tmp_path}/kit.db")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT DISTINCT session FROM kit_penalties")).scalars().all() == ["2026-0001"]
    engine.dispose()
