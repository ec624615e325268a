"""A history as CSV, read by Apache Otava's own importer."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.extra.history.analysis.changepoint import track
from kit.extra.history.report.history import Subject, render_history_csv
from tests.nights import entry, night


def test_otava_finds_the_change_of_a_penalty(tmp_path: Path) -> None:
    importer, config, util = (
        pytest.importorskip(f"otava.{name}", reason="apache-otava is not installed")
        for name in ("importer", "test_config", "util")
    )
    nights = [night(number, 0.05 if number < 12 else 0.1) for number in range(1, 25)]
    told = track([entry(session) for session in nights], nights[-1].id)
    path = tmp_path / "history.csv"
    path.write_text(render_history_csv(Subject("mine", "layer:overlay2", "bare", "real of total"), [told]))
    selector = importer.DataSelector()
    selector.since_time = util.parse_datetime("2001-01-01 00:00 UTC")
    metric = config.CsvMetric("penalty", -1, 1.0, "ratio")
    known = ["session", "low", "high"]
    test = config.CsvTestConfig("overlay2", str(path), time_column="created", metrics=[metric], attributes=known)
    series = importer.CsvImporter().fetch_data(test, selector)
    assert series.attributes["session"] == [session.id for session in nights]
    ends = zip(*(map(float, series.attributes[name]) for name in ("low", "high")), strict=True)
    ratios = series.data["penalty"]
    assert all(low < ratio < high for ratio, (low, high) in zip(ratios, ends, strict=True))
    (change,) = series.analyze().change_points["penalty"]
    assert nights[change.index].id == "2026-0012"
