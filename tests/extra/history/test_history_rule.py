"""A history of nights is read as the night reads it: its number of sessions that confirm a change, and what it
ignores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.analysis.session.analyse import analyse
from kit.core.paths import find_paths
from kit.extra.history.nightly.file import parse_nightly
from kit.extra.history.nightly.run import run_night
from kit.extra.history.tracks import find_tracks
from kit.model.session import Request, Session
from kit.report.text.progress import Quiet
from kit.store import Store
from tests.command_line import in_fork as kit
from tests.nights import night
from tests.stores import new_store

FILE = """\
confirm = 2
[[tasks]]
scenario = "smoke"
title = "mine"
ignore = ["kernel"]
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "kit.db")


def hold(store: Store, penalties: Sequence[float], **facts: str) -> None:
    """Hold a night of the file for each penalty, which is what its session measures."""
    job = parse_nightly(FILE, "x.toml", "x")
    for penalty in penalties:
        number = len(store.list())

        def measure(request: Request, number: int = number, penalty: float = penalty) -> Session:
            session = replace(night(number, penalty, **facts), request=request)
            store.add(session)
            return session

        run_night(job, find_paths(), store, Quiet(), measure)


def history(tmp_path: Path, *words: str) -> str:
    done = kit("history", "mine", "layer:overlay2", "--store", f"sqlite:///{tmp_path}/kit.db", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def series(tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    document = json.loads(history(tmp_path, "--format", "json", *words))
    listed: list[dict[str, Any]] = document["histories"][0]["series"]
    return listed


def test_a_history_confirms_a_change_as_its_night_does(store: Store, tmp_path: Path) -> None:
    hold(store, [0.05] * 6 + [0.2] * 2)
    last = store.get("last")
    (track,) = find_tracks(last, analyse(last), store)
    assert track.confirm == 2 and [change.confirmed for change in track.changes] == [True]
    (one,) = series(tmp_path)
    assert [change["confirmed"] for change in one["changes"]] == [True]
    assert [change["confirmed"] for change in series(tmp_path, "--confirm", "3")[0]["changes"]] == [False]


def test_a_history_ignores_what_its_night_ignores(store: Store, tmp_path: Path) -> None:
    hold(store, [0.05, 0.051], kernel="6.1")
    hold(store, [0.05, 0.051], kernel="6.2")
    assert len(series(tmp_path, "--all")) == 1
    assert len(series(tmp_path, "--all", "--ignore", "cpu")) == len(series(tmp_path, "--all", "--ignore", "")) == 2


def test_a_short_history_says_what_is_there_and_what_is_missing(store: Store, tmp_path: Path) -> None:
    hold(store, [0.05])
    assert "No change point yet in 1 session: 3 more can show one (2 before it and 2 from it on)." in history(tmp_path)
    hold(store, [0.051, 0.05])
    assert "No change point yet in 3 sessions: 1 more can show one" in history(tmp_path)
    hold(store, [0.0505])
    assert "No change point in 4 sessions." in history(tmp_path)
