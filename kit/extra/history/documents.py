"""The documents of ``kit history --json`` and ``kit nightly``."""

from __future__ import annotations

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.entry import Differing
from kit.cli.document import Document, list_of, record
from kit.extra.history.analysis.change_attribution import CommonChange
from kit.extra.history.analysis.changepoint import Change
from kit.extra.history.report.history import Subject
from kit.model.session import NotRun

_FIGURES = ("mean", "baseline_mean", "ratio", "low", "high")
_NIGHT = record("HistoryRow", **{
    **dict.fromkeys(("session", "machine", "kit", "source_commit", "ci_commit"), str), "series": int, "created": float,
    **dict.fromkeys(("arm", "baseline", "point", "phase", "metric"), str), "labels": dict[str, str],
    **dict.fromkeys(_FIGURES, float | None), "n": int, "change_point": bool,
})  # fmt: skip
_SERIES = record("SeriesRecord", began_with=list[Differing], changes=list[Change], sessions=list_of(_NIGHT))
_HISTORY = record("HistoryRecord", subject=Subject, series=list_of(_SERIES))
_THRESHOLD = record(
    "ThresholdResult", threshold=str, status=str, fails=bool, why=str, comparison=Comparison | None
)  # fmt: skip
_PAST = record("PastSession", session=str, ratio=float, low=float | None, high=float | None)
_TRACK = record(
    "TrackRecord", arm=str, point=str, sessions=list_of(_PAST), began_with=list[Differing], changes=list[Change]
)  # fmt: skip
_TASK = record(
    "TaskResult", task=str, session=str | None, error=str | None, seconds=float, thresholds=list_of(_THRESHOLD),
    comparisons=list[Comparison], histories=list_of(_TRACK), common_changes=list[CommonChange], not_run=list[NotRun],
)  # fmt: skip

HISTORY = Document("kit history --json", {"histories": list_of(_HISTORY)}, after="sessions")
NIGHTLY = Document("kit nightly, as nightly.json", {
    "name": str, "started": float, "result": str, "exit_code": int, "tasks": list_of(_TASK),
}, after="compare-sessions")  # fmt: skip
