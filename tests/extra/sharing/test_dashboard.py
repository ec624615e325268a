"""The Grafana dashboard of examples/: each of its queries finds something, and Grafana's own model reads all of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine

from kit.store import open_store
from tests.nights import night

DASHBOARD = Path(__file__).parents[3] / "examples/grafana/dashboard.json"
TITLE = "it's mine"
#: What a user chooses above the panels.
CHOSEN = {"scenario": (TITLE,), "machine": ("aa",), "arm": ("bare", "layer:overlay2"), "metric": ("real",)}


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def queries() -> dict[str, str]:
    """Return each query as Grafana sends it, by the name of its variable or panel."""
    document = dashboard()
    found = {item["name"]: item["query"] for item in document["templating"]["list"] if item["type"] == "query"}
    found |= {panel["title"]: target["rawSql"] for panel in document["panels"] for target in panel["targets"]}
    return {name: sent(query) for name, query in found.items()}


def sent(query: str) -> str:
    """Return the query with its macros expanded and its variables filled in."""
    query = re.sub(r"\$__timeFilter\((\w+)\)", r"\1 BETWEEN '1969-01-01T00:00:00Z' AND '2100-01-01T00:00:00Z'", query)
    query = re.sub(r"\$\{(\w+):sqlstring\}", lambda match: quoted(CHOSEN[match[1]]), query)
    assert "$" not in query
    return query


def quoted(values: tuple[str, ...]) -> str:
    return ", ".join("'{}'".format(value.replace("'", "''")) for value in values)


def fill(url: str, tmp_path: Path) -> float:
    """Store three nights, one with a flagged run; return the newest penalty in percent."""
    store = open_store(url, tmp_path / "kit.db")
    for number in range(1, 4):
        made = replace(night(number, 0.1), title=TITLE)
        flagged = replace(made.samples[0], flags="steal 9% of real")
        store.add(replace(made, samples=(flagged, *made.samples[1:])) if number == 2 else made)
    newest = store.history(TITLE, "layer:overlay2")[-1]
    store.close()
    return 100 * (newest.ratio - 1)


def check_queries(connection: Connection, newest: float) -> None:
    found = {name: connection.exec_driver_sql(query).mappings().all() for name, query in queries().items()}
    assert len(found) == 8 and all(found.values()), {name: len(rows) for name, rows in found.items()}
    assert [row["arm"] for row in found["arm"]] == ["layer:overlay2"]
    series = found["Penalty with its 95 % interval: ${metric}"]
    assert len(series) == 3 and {row["series"] for row in series} == {"layer:overlay2 / bare"}
    assert series[-1]["penalty"] == pytest.approx(newest)
    assert all(row["low"] < row["penalty"] < row["high"] for row in series)
    table = found["Newest penalties"]
    assert {row["session"] for row in table} == {"2026-0003"}
    assert {"real", "user"} <= {row["metric"] for row in table}
    (seconds, *_) = found["Real time of arm and baseline"]
    assert seconds["arm"] > seconds["baseline"] > 10
    (discarded,) = found["Runs that do not count"]
    assert (discarded["arm"], discarded["runs"], discarded["flags"]) == ("bare", 1, "steal 9% of real")


def test_each_query_finds_something_in_sqlite(tmp_path: Path) -> None:
    newest = fill("", tmp_path)
    engine = create_engine(f"sqlite:///{tmp_path}/kit.db")
    with engine.connect() as connection:
        check_queries(connection, newest)
    engine.dispose()


@pytest.mark.machine
@pytest.mark.unmeasured
def test_each_query_finds_something_in_postgresql(database: str, tmp_path: Path) -> None:
    newest = fill(database, tmp_path)
    engine = create_engine(database)
    with engine.connect() as connection:
        check_queries(connection, newest)
    engine.dispose()


def lost(one: Any, other: Any, where: str = "") -> list[str]:
    """Return the places of ``one`` that ``other`` lacks."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [found for key, value in one.items() for found in lost(value, other.get(key), f"{where}/{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [found for i, pair in enumerate(zip(one, other, strict=True)) for found in lost(*pair, f"{where}/{i}")]
    return [] if one == other else [where]


def test_grafanas_model_keeps_all_of_it() -> None:
    """Its classes have a field for each key that Grafana knows, and drop the others."""
    reason = "grafana-foundation-sdk is not installed"
    model, plugins, encoder = (
        pytest.importorskip(f"grafana_foundation_sdk.{name}", reason=reason)
        for name in ("models.dashboard", "cog.plugins", "cog.encoder")
    )
    plugins.register_default_plugins()

    def again(document: Any) -> Any:
        return json.loads(json.dumps(model.Dashboard.from_json(document), cls=encoder.JSONEncoder))

    assert lost(dashboard(), again(dashboard())) == []
    misspelt = dashboard()
    misspelt["panels"][0]["fieldConfig"]["defaults"]["units"] = "s"
    assert lost(misspelt, again(misspelt)) == ["/panels/0/fieldConfig/defaults/units"]


def test_panels_and_variables_ask_the_chosen_store() -> None:
    document = dashboard()
    items = [*document["panels"], *(target for panel in document["panels"] for target in panel["targets"])]
    items += [item for item in document["templating"]["list"] if item["type"] == "query"]
    assert {item["datasource"]["uid"] for item in items} == {"${datasource}"}
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
