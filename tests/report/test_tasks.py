"""A build task by task, in every report: of a session made up in which compile costs a fifth more in the layer."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from kit.analysis.session.analyse import Analysis, analyse
from kit.model.session import Session
from kit.parsers.task import BuildTask
from kit.report.data.structured import render_json
from kit.report.page.page import view
from kit.report.plot.tasks import MOST, plot_tasks
from kit.report.text.answer import answer
from kit.report.text.explain import render_explain
from kit.report.text.table import render_markdown, render_text
from tests.builds import ARMS, PAIRS, run
from tests.nights import night


def made(rounds: int = 5) -> tuple[Session, Analysis]:
    dice = np.random.default_rng(1)
    samples = tuple(
        run(arm, round_, {"compile": 1.2} if arm == "layer:overlay2" else {}, dice)
        for round_ in range(1, rounds + 1)
        for arm in ARMS
    )
    session = replace(night(1, 0.1), samples=samples, arms=ARMS, baselines=tuple(PAIRS))
    return session, analyse(session)


def test_the_sum_is_beside_the_phase_and_what_is_left_is_bitbakes() -> None:
    table = render_text(*made())
    assert "build by kind of task: layer:overlay2 / bare, 5 rounds; intervals simultaneous for all 12" in table
    assert table.count("for all 12, individual in the last 3 rows\n") == len(PAIRS)
    assert "build by recipe: layer:overlay2 / bare, 5 rounds; intervals simultaneous for all 6" in table
    part = table.partition("build by kind of task: layer:overlay2")[2].partition("build by recipe")[0]
    first = {line.split("  ")[0]: line for line in part.splitlines() if line and not line.startswith(" ")}
    kinds = ["compile", "configure", "install", "unpack", "fetch", "others"]
    assert [name for name in first if name in kinds] == kinds
    cpu = {name: float(first[name][22:].split()[0]) for name in ("all tasks", "bitbake itself", "the phase: CPU, real")}
    assert cpu["all tasks"] + cpu["bitbake itself"] == pytest.approx(cpu["the phase: CPU, real"], abs=0.02)
    assert all(len(line) <= 118 for line in part.splitlines())
    assert "<br>" in render_markdown(*made()).partition("build by kind of task")[2]


def test_the_answer_names_the_largest_kind_only_if_it_is_significant() -> None:
    said = answer(*made())
    assert "layer:overlay2, task by task: the largest part is compile's, +" in said
    assert max(map(len, said.splitlines())) <= 100
    assert "the largest part is compile's" in " ".join(render_explain(*made()).split())
    assert "task by task" not in answer(*made(rounds=1))


def test_with_copies_tables_are_of_the_first_copy() -> None:
    session, _ = made()
    session = replace(session, request=replace(session.request, params=(("copies", "4"),)))
    table = render_text(session, analyse(session))
    assert "build by kind of task of the first copy: layer:overlay2 / bare, 5 rounds; intervals" in table
    assert "build by recipe of the first copy: layer:overlay2 / bare" in table
    assert table.count("for all 12, individual in the last 2 rows\n") == len(PAIRS)
    assert "the phase, all copies: CPU, real" in table and "bitbake itself" not in table
    assert "layer:overlay2, task by task of the first copy: the largest" in " ".join(
        answer(session, analyse(session)).split()
    )


def test_json_and_page_hold_every_kind_and_recipe() -> None:
    session, analysis = made()
    found = {(item["by"], item["name"]) for item in json.loads(render_json(session, analysis))["tasks"]}
    assert found >= {
        ("kind", "compile"),
        ("recipe", "zip-native"),
        ("all", ""),
    }
    (part,) = view(session, analysis).tasks
    assert part.picture and "layer:overlay2: 18 tasks in" in part.picture.text
    assert [table.title.partition(":")[0] for table in part.tables] == ["build by kind of task", "build by recipe"] * 2


def test_the_plot_draws_no_two_tasks_over_each_other_and_the_longest_of_many() -> None:
    session, analysis = made(rounds=1)
    first = session.samples[0]
    tasks = tuple(BuildTask("compile", f"r{i}", i / 10, 0.15 + i / 1e4) for i in range(MOST + 100))
    session = replace(session, samples=(replace(first, phases=(replace(first.phases[0], tasks=tasks),)),))
    picture = plot_tasks(analyse(session).arms, "build")
    assert picture and f"(the {MOST} longest of {MOST + 100})" in picture.title
    assert picture.body.count("<rect") == MOST + 2 and "up to 3 at once" in picture.text
    assert plot_tasks(analysis.arms, "clean") is None
