"""Commits and labels begin no series; histories name those that change with a penalty."""

from __future__ import annotations

import json

from kit.analysis.session.analyse import analyse
from kit.analysis.session.entry import Entry
from kit.analysis.session.session_diff import compare_sessions
from kit.analysis.session.threshold import parse_threshold
from kit.extra.history.analysis.changepoint import ChangeHistory, find_changes
from kit.extra.history.analysis.regression import REGRESSION, judge
from kit.extra.history.analysis.series import split
from kit.extra.history.report.history import Subject, render_history, render_history_csv, render_history_json
from kit.extra.history.report.page import track_view
from kit.report.text.session_diff import render_between
from tests.nights import entry, night

A, B = "a" * 40, "b" * 40


def nights() -> list[Entry]:
    """Twelve nights: the penalty doubles with commit B."""
    made = [(0.1, A, f"{i}") for i in range(6)] + [(0.2, B, f"{i}") for i in range(6, 12)]
    return [
        entry(night(i, penalty, **{"source commit": commit, "label build": build}))
        for i, (penalty, commit, build) in enumerate(made)
    ]


def test_the_commit_at_which_a_penalty_changed_is_named_everywhere() -> None:
    (series,) = split(nights())
    track = ChangeHistory(series, find_changes(series), 3)
    assert [item.index for item in track.changes] == [6]
    said = f"source commit {'a' * 12} → {'b' * 12}; label build 5 → 6"
    subject = Subject("mine", "layer:overlay2", "bare", "real of total")
    text = " ".join(render_history(subject, [track]).split())
    assert f"changed there: {said}" in text and " commit " in text
    view = track_view(track, (), "x")
    assert said in view.lines[0] and view.headers[2] == "commit" and view.rows[6][2] == "b" * 12
    (change,) = json.loads(render_history_json(subject, [track]))["histories"][0]["series"][0]["changes"]
    assert change["differs"][0] == {"name": "source commit", "before": A, "after": B}
    assert f",{B},,build=11," in render_history_csv(subject, [track])
    threshold = parse_threshold("layer:overlay2 < 15 %", "docker")
    found = judge(threshold, series.entries[-1].outcome.comparison, series, track.changes)
    assert found.status == REGRESSION and said in found.why


def test_a_commit_that_is_known_of_one_side_alone_is_named() -> None:
    entries = [entry(night(i, 0.1)) for i in range(6)] + nights()[6:]
    (series,) = split(entries)
    (change,) = find_changes(series)
    assert str(change.differs[0]) == f"source commit unknown → {'b' * 12}"


def test_sessions_that_name_no_commit_have_no_column() -> None:
    (series,) = split([entry(night(i, 0.1)) for i in range(4)])
    track = ChangeHistory(series, (), 3)
    assert "commit" not in render_history(Subject("mine", "a", "b", "c"), [track])
    assert "commit" not in track_view(track, (), "x").headers


def test_two_sessions_side_by_side_name_their_commits() -> None:
    one, two = night(1, 0.1, **{"CI commit": A}), night(2, 0.1, **{"CI commit": B})
    text = render_between(one, two, compare_sessions((one, analyse(one)), (two, analyse(two))))
    assert f"differs: CI commit {'a' * 12} → {'b' * 12}" in text and "no recorded fact" in text
