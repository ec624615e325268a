"""The columns that other programs read are those that the page describes."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from kit.store.schema.views import COLUMNS, VIEWS
from tests.stores import new_store


@pytest.mark.parametrize("view", VIEWS)
def test_each_column_of_a_view_is_described_once(view: str, tmp_path: Path) -> None:
    new_store(tmp_path / "kit.db").close()
    engine = create_engine(f"sqlite:///{tmp_path}/kit.db")
    columns = [column["name"] for column in inspect(engine).get_columns(view)]
    engine.dispose()
    assert sorted(name for names in COLUMNS[view] for name in names) == sorted(columns)
