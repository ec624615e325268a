"""What a fleet's answer says: in the first lines, in a hundred columns, in every format."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from kit.analysis.session.analyse import analyse
from kit.extra.fleet.analysis.answer import FleetAnswer, LeftOut, answer_sessions
from kit.extra.fleet.analysis.split_session import answer_split
from kit.extra.fleet.renderers import FLEET
from kit.extra.fleet.report.cost import view_fleet_cost
from kit.report.format.interval import percent_interval, percent_range
from kit.report.page.html import render_html
from kit.report.page.page import view
from kit.report.renderer import find, names
from kit.report.text.answer import render_answer
from tests.nights import night
from tests.shared_night import PENALTIES, shared


def fleet(*penalties: float, classes: tuple[str, ...] = ("small",), odd: float | None = None) -> FleetAnswer:
    given = [*penalties, *([odd] if odd is not None else [])]
    sessions = []
    for i, penalty in enumerate(given):
        session = night(i, penalty)
        facts = {"machine": f"m{i}", "worker": f"builder-{i:02}", "class": classes[i % len(classes)]}
        sessions.append(replace(session, facts={**session.facts, **facts}))
    return answer_sessions([(session, analyse(session)) for session in sessions])


def test_the_answer_comes_first_and_fits() -> None:
    text = find(FLEET, "table").render(fleet(0.08, 0.10, 0.12, 0.11))
    lines = text.splitlines()
    assert lines[0] == "mine on 4 machines: slower: layer:overlay2 (+9.2 % [+6.9, +11.6])"
    assert max(map(len, lines)) <= 100 and len(lines) <= 10
    assert "prediction interval" in text and "spread" in text


def test_few_machines_say_why_there_is_no_figure() -> None:
    text = find(FLEET, "table").render(fleet(0.1, 0.1))
    said = " ".join(text.split())
    assert said.startswith("mine on 2 machines: 3 are the minimum to show how machines differ")
    for i in range(2):
        assert re.search(rf"builder-0{i}, layer:overlay2 / bare: \+\S+ % \[.*?\] by itself; kit show 2026-000{i}", said)
    assert "prediction interval" not in said and "–" not in said
    assert "by itself; kit show" not in find(FLEET, "table").render(fleet(0.1, 0.1, 0.1))


def test_where_no_machine_has_the_figure_that_is_said() -> None:
    """CPU elsewhere is not known of a machine that is busy, for example."""
    text = find(FLEET, "table").render(answer_split(shared(), "cpu_total"))
    assert "none of them has a valid figure of cpu_total" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100


def test_workers_of_one_machine_are_called_no_fleet() -> None:
    sessions = []
    for i in range(4):
        session = night(i, 0.1)
        facts = {"worker": f"b{i}", "class": "c", "measured together": f"b{i} may share a machine with other workers"}
        sessions.append(replace(session, facts={**session.facts, **facts}))
    given = answer_sessions([(session, analyse(session)) for session in sessions])
    said = " ".join(find(FLEET, "table").render(given).split())
    assert "mine on 1 machine: 3 are the minimum" in said and "SHARED MACHINE: b3: workers of one" in said
    assert "b3 is a worker of the same machine: b0 (session" in said
    assert "b0 may share a machine" in render_answer(sessions[0], analyse(sessions[0]))


def test_of_few_machines_none_is_said_to_fit() -> None:
    few = list(csv.DictReader(io.StringIO(find(FLEET, "csv").render(fleet(0.10, 0.11, 0.10)))))
    assert {row["outlier"] for row in few if row["session"]} == {""}
    enough = list(csv.DictReader(io.StringIO(find(FLEET, "csv").render(fleet(0.10, 0.11, 0.10, 0.12)))))
    assert {row["outlier"] for row in enough if row["session"]} == {"False"}


def test_a_machine_that_does_not_fit_is_named_with_its_session() -> None:
    text = find(FLEET, "table").render(fleet(*[0.10 + 0.001 * i for i in range(9)], odd=0.5))
    assert "outlier: builder-09, layer:overlay2 / bare: +4" in text and "kit show 2026-0009" in text
    said = " ".join(text.split())
    assert "the mean includes outliers; layer:overlay2 / bare without it: +9" in said and "of 9 machines" in said
    assert "includes outliers" not in find(FLEET, "table").render(fleet(*[0.10 + 0.001 * i for i in range(9)]))


def test_what_was_left_out_is_counted_by_reason() -> None:
    """A rack on an old kit is one line, and not one for each of its machines."""
    left = [LeftOut(f"b{i:02}", f"s{i}", "kit: 1 → 0") for i in range(40)]
    left += [LeftOut("", "s90", "rounds of several"), LeftOut("c1", "s91", "caches: warm → cold")]
    left += [LeftOut(f"d{i}", f"t{i}", f"image: {i}") for i in range(9)]
    lines = [
        line for line in view_fleet_cost(FleetAnswer("x", (), {}, tuple(left))).lines if line.startswith("left out")
    ]
    assert lines[0] == (
        "left out: 40 machines, kit: 1 → 0: b00 (session s0), b01 (session s1), b02 (session s2) and 37 more"
    )
    assert lines[1:3] == [
        "left out: 1 session, rounds of several: s90",
        "left out: 1 machine, caches: warm → cold: c1 (session s91)",
    ]
    assert len(lines) == 7 and lines[-1] == "left out: 6 more, for 6 other reasons: --format json names them"


def test_classes_stand_below_and_are_said_to_differ() -> None:
    text = find(FLEET, "table").render(fleet(*[0.05, 0.40] * 4, classes=("small", "large")))
    assert "of 2 classes" in text and "classes differ: layer:overlay2 / bare" in text
    assert any(line.startswith("└ large") for line in text.splitlines())


@pytest.mark.parametrize("name", names(FLEET))
def test_every_format_holds_the_mean_its_interval_and_the_prediction(name: str) -> None:
    given = fleet(0.08, 0.10, 0.12, 0.11)
    whole = given.arms[0].whole
    assert whole.ratio and whole.prediction and whole.prediction.high
    text = find(FLEET, name).render(given)
    if name == "json":
        read = json.loads(text)["arms"][0]["whole"]
        assert (read["ratio"], read["prediction"]["high"]) == (whole.ratio.estimate, whole.prediction.high)
    elif name == "csv":
        first, *machines = list(csv.DictReader(io.StringIO(text)))
        assert (
            float(first["ratio"]) == whole.ratio.estimate and float(first["prediction_high"]) == whole.prediction.high
        )
        assert [row["machine"] for row in machines] == [f"builder-{i:02}" for i in range(4)]
    else:
        assert percent_interval(whole.ratio) in text
        assert whole.prediction.low and percent_range(whole.prediction.low, whole.prediction.high) in text


def test_the_page_of_a_session_of_several_machines_says_it_too() -> None:
    session = shared()
    page = render_html("x", [view(session, analyse(session))])
    told = view_fleet_cost(answer_split(session))
    assert told.headline in page and all(name in page for name in PENALTIES)
    for cell in (*told.rows[0], *told.machines[0]):
        assert cell.replace(" %", "\u00a0%") in page
    alone = night(1, 0.1)
    assert "Over its machines" in page and "Over its machines" not in render_html("x", [view(alone, analyse(alone))])
