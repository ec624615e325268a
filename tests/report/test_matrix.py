"""The matrix in every format: the sentence first, a hundred columns, verdicts that differ in more than colour."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from kit.analysis.matrix.cost import Price
from kit.analysis.matrix.matrix import Matrix, make_matrix
from kit.analysis.matrix.row import rows_of
from kit.report.format.interval import percent_interval
from kit.report.matrix.view import view_matrix
from kit.report.renderer import MATRIX, find, names
from tests.json_schemas import check_document
from tests.matrices import COSTS, REFERENCE, made, suite


def matrix(**weights: float) -> Matrix:
    rows = [row for session in suite() for row in rows_of([session], REFERENCE, "", 0.03)]
    return make_matrix("large", rows, REFERENCE, 0.03, weights)


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_sentence_names_the_driver_for_whom_it_is_wrong_and_its_cost() -> None:
    said = words(find(MATRIX, "table").render(matrix(), None))
    assert said.startswith("Use layer:overlay2: no other driver is significantly faster over these 3 scenarios. ")
    assert re.search(
        r"It is wrong for git:short \(layer:btrfs: -(?:19|20)\.\d+ % \[.*?\]\)\. It costs \+9\.\d+ % \[", said
    )
    other = words(find(MATRIX, "table").render(matrix(git=8), None))
    assert re.match(r"Use layer:btrfs: -\S+ % \[.*?\] vs layer:overlay2 over these 3 scenarios\.", other)
    assert "It is wrong for fsync:short (layer:btrfs: +59" in other
    right = words(find(MATRIX, "table").render(matrix(git=8, fsync=0), None))
    assert "In no scenario is it significantly slower than layer:overlay2." in right


@pytest.mark.parametrize("columns", ["100", "60"])
def test_tables_fit_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = find(MATRIX, "table").render(matrix(), Price(0.34, 400))
    assert max(map(len, text.splitlines())) <= int(columns)
    for arm in matrix().arms:
        assert arm.partition(":")[2] in text
    assert "geometric mean" in text or ("geometric" in text and "per year" in text)


def test_verdicts_look_different_without_colour() -> None:
    cells = {cell.verdict: cell for _, row in view_matrix(matrix()).rows for cell in row}
    assert {"slower", "faster", "equivalent", "not run", "reference"} <= cells.keys()
    marks = [cells[verdict].mark for verdict in ("slower", "faster", "equivalent")]
    assert len(set(marks)) == 3 and all(marks) and cells["not run"].figure == "not run"
    kinds = {cell.kind for _, row in view_matrix(matrix()).rows for cell in row}
    assert {"slower2", "slower3", "faster2", "equivalent", "not-run", "reference"} <= kinds


@pytest.mark.parametrize("name", names(MATRIX))
def test_every_format_has_means_intervals_and_costs(name: str) -> None:
    given, price = matrix(), Price(0.34, 400)
    mean = given.mean("layer:vfs")
    assert mean.ratio
    text = find(MATRIX, name).render(given, price)
    if name == "json":
        document = check_document("matrix", text)
        found = {item["arm"]: item for item in document["means"]}
        assert found["layer:vfs"]["ratio"]["estimate"] == mean.ratio.estimate and document["take"] == REFERENCE
        assert document["costs"][0]["total"]["low"] and document["wrong_for"][0]["scenario"] == "git:short"
    elif name == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        (row,) = (row for row in rows if row["arm"] == "layer:vfs" and not row["scenario"])
        assert float(row["ratio"]) == mean.ratio.estimate and float(row["year"]) > 0 and float(row["space_low"])
        assert {row["reason"] for row in rows if row["arm"] == "layer:zfs"} == {"the kernel has no zfs", ""}
    else:
        plain = words(re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " "))
        figure, _, interval = percent_interval(mean.ratio.estimate, mean.low_all, mean.high_all).partition(" [")
        assert figure in plain and f"[{interval}" in plain
        for said in ("the kernel has no zfs", "per year", "written", "space", "vs bare", "not of all builds"):
            assert said in plain, said


def test_the_page_has_no_script_from_elsewhere_and_a_class_for_each_verdict() -> None:
    page = find(MATRIX, "html").render(matrix(), None)
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)
    assert 'class="cell faster2"' in page and 'class="cell not-run"' in page and 'class="cell equivalent"' in page


def test_the_json_without_a_price_fits_the_schema() -> None:
    assert json.loads(find(MATRIX, "json").render(matrix(), None))["costs"] == []
    check_document("matrix", find(MATRIX, "json").render(matrix(), None))


def test_against_bare_there_is_no_driver_to_choose() -> None:
    rows = [row for session in suite() for row in rows_of([session], "bare", "", 0.03)]
    said = words(find(MATRIX, "table").render(make_matrix("large", rows, "bare", 0.03, {}), None))
    assert re.match(r"Against bare over these 3 scenarios: bind:overlay2 \+1\.\d+ % \[.*?\], layer:overlay2 \+9", said)


def test_few_scenarios_weights_and_one_driver_are_said() -> None:
    few = {arm: COSTS["git:short"][arm] for arm in ("bare", REFERENCE, "layer:btrfs")}
    rows = [
        row for session in (made("git:short", few), *suite()[::2]) for row in rows_of([session], REFERENCE, "", 0.03)
    ]
    said = words(find(MATRIX, "table").render(make_matrix("large", rows, REFERENCE, 0.03, {"kernel": 3}), None))
    assert "weights other than 1: kernel:short 3" in said and "layer:vfs (2 of 3)" in said and "2 of 3" in said
    alone = {arm: COSTS["git:short"][arm] for arm in ("bare", REFERENCE)}
    rows = rows_of([made("git:short", alone)], REFERENCE, "", 0.03)
    said = words(find(MATRIX, "table").render(make_matrix("large", rows, REFERENCE, 0.03, {}), None))
    assert said.startswith("No other driver than layer:overlay2 was measured in this scenario. It costs +10.9 %")


def test_cells_of_older_sessions_are_named() -> None:
    few = {arm: COSTS["git:short"][arm] for arm in ("bare", REFERENCE, "layer:btrfs")}
    rows = rows_of([made("git:short", few, 2), made("git:short", COSTS["git:short"], 1)], REFERENCE, "", 0.03)
    said = words(find(MATRIX, "table").render(make_matrix("large", rows, REFERENCE, 0.03, {}), None))
    assert "older sessions of the same work and machine: bind:overlay2 of git:short (git-short-001), layer" in said
