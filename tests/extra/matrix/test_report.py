"""The matrix in every format: the sentence first, a hundred columns, verdicts that differ in more than colour."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from kit.extra.matrix.analysis.matrix import Matrix, make_matrix
from kit.extra.matrix.analysis.row import rows_of
from kit.extra.matrix.renderers import MATRIX
from kit.extra.matrix.report.view import view_matrix
from kit.extra.matrix.report.words import change
from kit.report.renderer import find, names
from tests.json_schemas import check_document
from tests.matrices import COSTS, REFERENCE, in_copies, made, suite


def matrix(**weights: float) -> Matrix:
    rows = [row for session in suite() for row in rows_of([session], REFERENCE, "", 0.03)]
    return make_matrix("large", rows, REFERENCE, 0.03, weights)


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_sentence_names_the_driver_for_whom_it_is_wrong_and_its_cost() -> None:
    said = words(find(MATRIX, "table").render(matrix()))
    assert said.startswith("Use layer:overlay2: no other driver is significantly faster over these 3 scenarios. ")
    assert re.search(
        r"It is wrong for git:short \(layer:btrfs: -(?:19|20)\.\d+ % \[.*?\]\)\. It costs \+9\.\d+ % \[", said
    )
    other = words(find(MATRIX, "table").render(matrix(git=8)))
    assert re.match(r"Use layer:btrfs: -\S+ % \[.*?\] vs layer:overlay2 over these 3 scenarios\.", other)
    assert "It is wrong for fsync:short (layer:btrfs: +59" in other
    right = words(find(MATRIX, "table").render(matrix(git=8, fsync=0)))
    assert "In no scenario is it significantly slower than layer:overlay2." in right


@pytest.mark.parametrize("columns", ["100", "60"])
def test_tables_fit_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = find(MATRIX, "table").render(matrix())
    assert max(map(len, text.splitlines())) <= int(columns)
    for arm in matrix().arms:
        assert arm.partition(":")[2] in text
    assert "geometric" in text and "written" in text


def test_verdicts_look_different_without_colour() -> None:
    cells = {cell.verdict: cell for _, row in view_matrix(matrix()).rows for cell in row}
    assert {"slower", "faster", "equivalent", "not run", "reference"} <= cells.keys()
    marks = [cells[verdict].mark for verdict in ("slower", "faster", "equivalent")]
    assert len(set(marks)) == 3 and all(marks) and cells["not run"].figure == "not run"
    kinds = {cell.kind for _, row in view_matrix(matrix()).rows for cell in row}
    assert {"slower2", "slower3", "faster2", "equivalent", "not-run", "reference"} <= kinds


@pytest.mark.parametrize("name", names(MATRIX))
def test_every_format_has_means_intervals_and_costs(name: str) -> None:
    given = matrix()
    mean = given.mean("layer:vfs")
    assert mean.ratio
    text = find(MATRIX, name).render(given)
    if name == "json":
        document = check_document("matrix", text)
        found = {item["arm"]: item for item in document["means"]}
        assert found["layer:vfs"]["ratio"]["estimate"] == mean.ratio.estimate and document["take"] == REFERENCE
        assert document["wrong_for"][0]["scenario"] == "git:short"
    elif name == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        (row,) = (row for row in rows if row["arm"] == "layer:vfs" and not row["scenario"])
        assert float(row["ratio"]) == mean.ratio.estimate and float(row["space_low"])
        assert {row["reason"] for row in rows if row["arm"] == "layer:zfs"} == {"the kernel has no zfs", ""}
    else:
        plain = words(re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " "))
        figure, _, interval = change(mean.ratio.estimate, mean.low_all, mean.high_all).partition(" [")
        assert figure in plain and f"[{interval}" in plain
        for said in ("the kernel has no zfs", "written", "space", "vs bare", "not of all builds"):
            assert said in plain, said


def test_the_page_has_no_script_from_elsewhere_and_a_class_for_each_verdict() -> None:
    page = find(MATRIX, "html").render(matrix())
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)
    assert 'class="cell faster2"' in page and 'class="cell not-run"' in page and 'class="cell equivalent"' in page


def test_against_bare_there_is_no_driver_to_choose() -> None:
    rows = [row for session in suite() for row in rows_of([session], "bare", "", 0.03)]
    said = words(find(MATRIX, "table").render(make_matrix("large", rows, "bare", 0.03, {})))
    assert re.match(r"Vs bare over these 3 scenarios: bind:overlay2 \+1\.\d+ % \[.*?\], layer:overlay2 \+9", said)


def test_few_scenarios_weights_and_one_driver_are_said() -> None:
    few = {arm: COSTS["git:short"][arm] for arm in ("bare", REFERENCE, "layer:btrfs")}
    rows = [
        row for session in (made("git:short", few), *suite()[::2]) for row in rows_of([session], REFERENCE, "", 0.03)
    ]
    said = words(find(MATRIX, "table").render(make_matrix("large", rows, REFERENCE, 0.03, {"kernel": 3})))
    assert "weights other than 1: kernel:short 3" in said and "layer:vfs (2 of 3)" in said and "2 of 3" in said
    alone = {arm: COSTS["git:short"][arm] for arm in ("bare", REFERENCE)}
    rows = rows_of([made("git:short", alone)], REFERENCE, "", 0.03)
    said = words(find(MATRIX, "table").render(make_matrix("large", rows, REFERENCE, 0.03, {})))
    assert said.startswith(f"No other driver than {REFERENCE} was measured in this scenario. {REFERENCE} costs +10.9 %")


def test_where_no_driver_has_all_scenarios_the_sentence_says_how_many_it_has() -> None:
    """One scenario has bind mounts alone beside the reference."""
    few = {arm: COSTS["git:short"][arm] for arm in ("bare", REFERENCE, "bind:overlay2")}
    sessions = (made("git:short", few), *suite()[::2])
    rows = [row for session in sessions for row in rows_of([session], REFERENCE, "", 0.03)]
    said = view_matrix(make_matrix("large", rows, REFERENCE, 0.03, {})).headline
    assert re.match(r"Vs layer:overlay2 over these 3 scenarios: bind:overlay2 -\d\S* % \[\S+ \S+\]\. No other", said)
    assert (
        "No other driver than layer:overlay2 was measured in all 3 scenarios: layer:vfs in 2, layer:btrfs in 2. "
        "layer:overlay2 costs +" in said
    )
    fix = "Measure layer:vfs in the others too, or leave them out: --weight git:short=0"
    assert said.endswith(f" over no container. {fix}")
    fixed = view_matrix(make_matrix("large", rows, REFERENCE, 0.03, {"git:short": 0})).headline
    assert fixed.startswith("Use layer:overlay2: no other driver is significantly faster over these 2 scenarios.")
    points = [replace(row, scenario="kernel", point=f"jobs={i}") for i, row in enumerate(rows)]
    said = view_matrix(make_matrix("large", points, REFERENCE, 0.03, {})).headline
    assert "was measured in all 3 points: layer:vfs in 2" in said
    assert said.endswith("Measure layer:vfs in the others too.")


def test_a_scenario_without_other_arms_is_shown_and_said_to_be_no_part() -> None:
    alone = made("smoke", {"bare": 0.9, REFERENCE: 1.0}, 2)
    rows = [row for session in (*suite(), alone) for row in rows_of([session], REFERENCE, "", 0.03)]
    view = view_matrix(make_matrix("large", rows, REFERENCE, 0.03, {}))
    assert "over these 3 scenarios" in view.headline and [name for name, _ in view.rows][-1] == "smoke"
    assert "no part of the means, since no arm but layer:overlay2 has an interval: smoke" in view.lines


def test_points_of_one_scenario_are_one_scenario() -> None:
    (row,) = rows_of([suite()[1]], REFERENCE, "", 0.03)
    points = [replace(row, point=f"jobs={jobs}") for jobs in (1, 2, 4)]
    view = view_matrix(make_matrix("large", points, REFERENCE, 0.03, {}))
    assert " vs layer:overlay2 over this scenario." in view.headline
    assert not any("of fewer" in line for line in view.lines)


def test_a_mean_of_fewer_figures_than_scenarios_has_a_note() -> None:
    rows = [row for session in suite() for row in rows_of([session], REFERENCE, "", 0.03)]
    lacking = tuple(replace(cell, space=None) if cell.arm == "layer:vfs" else cell for cell in rows[0].cells)
    view = view_matrix(make_matrix("large", [replace(rows[0], cells=lacking), *rows[1:]], REFERENCE, 0.03, {}))
    space = dict(zip(view.arms, dict(view.means)["space"], strict=True))
    assert (space["layer:vfs"].note, space["layer:btrfs"].note) == ("2 of 3", "")
    assert any("not to be compared with the others: space of layer:vfs (2 of 3)" in line for line in view.lines)


def test_sizes_have_one_decimal_at_most() -> None:
    assert change(2.15911, 2.1589, 2.15925) == "+115.9 % [+115.9, +115.9]"
    assert change(1.00001, 1.0, 1.00002) == "+0.0 % [+0.0, +0.0]"
    assert change(0.908, 0.609, 1.354) == "-9 % [-39, +35]"


def test_copies_are_named() -> None:
    session = in_copies(suite()[1], {4: 20.0})
    found = make_matrix("large", rows_of([session], REFERENCE, "", 0.03), REFERENCE, 0.03, {})
    assert "git:short at copies=4" in words(find(MATRIX, "markdown").render(found))


def test_the_json_has_the_parameters_that_points_do_not_name() -> None:
    session = suite()[1]
    session = replace(session, request=replace(session.request, params=(("jobs", "1"), ("copies", "1"))))
    found = make_matrix("large", rows_of([session], REFERENCE, "", 0.03), REFERENCE, 0.03, {})
    assert [row["params"] for row in json.loads(find(MATRIX, "json").render(found))["rows"]] == [{"jobs": "1"}]


def test_a_driver_that_may_be_faster_is_named_beside_the_reference() -> None:
    costs = {"bare": 1.0, REFERENCE: 1.0, "layer:btrfs": 0.99}
    rows = rows_of([made("git:short", costs, noise=0.05, rounds=3)], REFERENCE, "", 0.03)
    said = words(find(MATRIX, "table").render(make_matrix("large", rows, REFERENCE, 0.03, {})))
    assert re.search(r"Inconclusive: layer:btrfs \(by up to [0-9.]+ %\) may be faster; more rounds would decide", said)


def test_what_did_not_run_has_its_fix() -> None:
    assert "not run: layer:zfs (the kernel has no zfs; fix: modprobe zfs)" in words(
        find(MATRIX, "table").render(matrix())
    )


def test_other_faster_drivers_are_named() -> None:
    costs = {"bare": 1.0, REFERENCE: 1.0, "layer:btrfs": 0.8, "layer:vfs": 0.7}
    rows = rows_of([made("git:short", costs)], REFERENCE, "", 0.03)
    said = words(find(MATRIX, "table").render(make_matrix("large", rows, REFERENCE, 0.03, {})))
    assert "Use layer:vfs" in said
    assert "also significantly faster in the mean: layer:btrfs; to compare them: --reference layer:vfs" in said


def test_cells_of_older_sessions_are_named() -> None:
    few = {arm: COSTS["git:short"][arm] for arm in ("bare", REFERENCE, "layer:btrfs")}
    rows = rows_of([made("git:short", few, 2), made("git:short", COSTS["git:short"], 1)], REFERENCE, "", 0.03)
    said = words(find(MATRIX, "table").render(make_matrix("large", rows, REFERENCE, 0.03, {})))
    assert "older sessions of the same work and machine: bind:overlay2 of git:short (git-short-001), layer" in said
