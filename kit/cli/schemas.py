"""JSON Schemas of the documents that commands write, made from the types of what they contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import GenericAlias
from typing import Any, Literal, TypedDict, get_type_hints

import msgspec

from kit.analysis.fleet.answer import FleetAnswer, FleetArm, LeftOut
from kit.analysis.fleet.cost import FleetRatio
from kit.analysis.history.change_attribution import CommonChange
from kit.analysis.history.changepoint import Change
from kit.analysis.history.history import Differing
from kit.analysis.history.session_diff import SessionDiff
from kit.analysis.matrix.mean import ArmMean
from kit.analysis.runs.compare import Comparison
from kit.analysis.session.analyse import Analysis
from kit.analysis.session.difference import Difference
from kit.analysis.session.ranking import Ranking, RankRow
from kit.analysis.stats.estimate import Interval
from kit.guest.kernel_cache import BuiltKernel
from kit.image import Image
from kit.model.call import Call
from kit.model.machine import Member, ShareStatus
from kit.model.sample import PHASE_FIELDS, Phase, Sample
from kit.model.scenario import Scenario
from kit.model.session import NotRun, Session
from kit.parsers.figure import Reported
from kit.report.data.structured import JSON_SCHEMA, PARTS, SAMPLE_FIELDS
from kit.report.history.history import Subject
from kit.session.trial import Diagnosis

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Document:
    """One kind of document. ``written_by``: the commands. ``of``: the keys beside ``schema``, with their types."""

    written_by: str
    of: Mapping[str, Any]
    version: int = 1

    def schema(self, name: str) -> dict[str, Any]:
        made = msgspec.json.schema(_table(name, schema=Literal[self.version], **self.of), schema_hook=_hook)
        for table in (made, *made.get("$defs", {}).values()):
            _drop_defaults(table)
        return {"$schema": _DRAFT, "title": name, "description": f"Written by {self.written_by}.", **made}


def _hook(kind: type) -> dict[str, Any]:
    if issubclass(kind, Path):
        return {"type": "string"}
    raise NotImplementedError


def _drop_defaults(table: dict[str, Any]) -> None:
    """Every field is written, also one with a default."""
    properties = table.get("properties", {})
    for item in properties.values():
        item.pop("default", None)
    table.update({"required": list(properties)} if properties else {})
    for text in ("title", "description"):  # docstrings, which tell of Python
        table.pop(text, None)


def _table(name: str, /, **keys: Any) -> Any:
    return TypedDict(name, keys)  # type: ignore[operator]


def _list(kind: Any) -> Any:
    return GenericAlias(list, (kind,))


def _fields(kind: type, *left_out: str, **more: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with their types, as ``asdict`` gives them."""
    known = get_type_hints(kind, include_extras=True)
    return {item.name: known[item.name] for item in fields(kind) if item.name not in left_out} | more


_SESSION = _table("SessionFacts", **_fields(Session, "samples", baselines=dict[str, str], guest=str))
_SAMPLE = {key: kind for key, kind in _fields(Sample).items() if key in SAMPLE_FIELDS}
_PHASE = {key: kind for key, kind in _fields(Phase).items() if key in PHASE_FIELDS and key not in ("name", "status")}
_ROW = {
    **{"arm": str, "point": str, "round": int, "kind": str, "phase": str | None, "status": str},
    **{key: kind | None for key, kind in _PHASE.items()},
    **_SAMPLE,
    **{"rerun_of": int | None, "digests": dict[str, str], "reported": list[Reported]},
}  # fmt: skip
_SAMPLE_ROW = _table("SampleRow", **_ROW)
_ANALYSIS = get_type_hints(Analysis)
_SESSION_DOCUMENT = {
    "session": _SESSION,
    "samples": _list(_SAMPLE_ROW),
    "warmups": _list(_SAMPLE_ROW),
    "traced": _list(_table("TracedRow", **_ROW, calls=list[Call])),
    "comparisons": tuple[Comparison, ...],
    **{part: _ANALYSIS[part] for part in PARTS},
}
_ENDS = dict.fromkeys(("low", "high", "low_all", "high_all"), float | None)
_DIFFERENCE = _table(
    "Difference",
    **_fields(
        Difference,
        ratio=float,
        n=int,
        visible=float,
        **dict.fromkeys(("low_bound", "high_bound"), float | None),
        **_ENDS,
    ),
)
_RANK_ROW = _table("RankRow", **_fields(RankRow, against=_DIFFERENCE | None))
_SESSION_DOCUMENT["rankings"] = _list(_table("Ranking", **_fields(
    Ranking, rows=_list(_RANK_ROW), filesystems=_list(_DIFFERENCE), pairs=_list(_DIFFERENCE)
)))  # fmt: skip
_FIGURES = ("mean", "baseline_mean", "ratio", "low", "high")
_NIGHT = _table("HistoryRow", **{
    **dict.fromkeys(("session", "machine", "kit", "source_commit", "ci_commit"), str), "series": int, "created": float,
    **dict.fromkeys(("arm", "baseline", "point", "phase", "metric"), str), "labels": dict[str, str],
    **dict.fromkeys(_FIGURES, float | None), "n": int, "change_point": bool,
})  # fmt: skip
_SERIES = _table("SeriesRecord", began_with=list[Differing], changes=list[Change], sessions=_list(_NIGHT))
_HISTORY = _table("HistoryRecord", subject=Subject, series=_list(_SERIES))
_THRESHOLD = _table(
    "ThresholdResult", threshold=str, status=str, fails=bool, why=str, comparison=Comparison | None
)  # fmt: skip
_PAST = _table("PastSession", session=str, ratio=float, low=float | None, high=float | None)
_TRACK = _table(
    "TrackRecord", arm=str, point=str, sessions=_list(_PAST), began_with=list[Differing], changes=list[Change]
)  # fmt: skip
_TASK = _table(
    "TaskResult", task=str, session=str | None, error=str | None, seconds=float, thresholds=_list(_THRESHOLD),
    comparisons=list[Comparison], histories=_list(_TRACK), common_changes=list[CommonChange], not_run=list[NotRun],
)  # fmt: skip
_WAITING = _table("WaitingOutbox", session=str, runs=int, store=str, reason=str, file=str)
_OF_FLEET = _fields(FleetRatio, ratio=float | None, **_ENDS)
_FLEET_ARM = _table("FleetArmRecord", **_fields(
    FleetArm, whole=_table("FleetRatioRecord", **_OF_FLEET, verdict=str), classes_differ=bool,
    classes=_list(_table("FleetRatio", **_OF_FLEET)),
))  # fmt: skip
_CELL = _table("MatrixCellRecord", **{
    "arm": str, "verdict": str, **dict.fromkeys(("ratio", "over_bare", "space", "written", "mean", "more"),
    Interval | None), "low_all": float | None, "high_all": float | None, "n": int, "session": str,
    "reason": str, "fix": str,
})  # fmt: skip
_MEAN = _table("ArmMean", **_fields(ArmMean, ratio=Interval | None, low_all=float | None, high_all=float | None))
_MATRIX_ROW = _table("MatrixRowRecord", **{
    "scenario": str, "point": str, "params": dict[str, str], "metric": str, "weight": float, "counts": bool,
    "machines": int, "cells": _list(_CELL),
})  # fmt: skip
_WRONG_FOR = _table("WrongForRecord", scenario=str, point=str, faster=str)
_REMOVED = _table("RemovedSession", id=str, created=float, title=str)
_SETTING = _table("SettingRecord", **{"value": Any, "from": str})

DOCUMENTS: Mapping[str, Document] = {
    "session": Document("kit compare --json, kit show --json, kit import --json and pytest --kit-json of one session",
                        _SESSION_DOCUMENT, JSON_SCHEMA),
    "pytest": Document("pytest --kit-json of several sessions", {"sessions": _list(_table(
        "SessionDocument", schema=Literal[JSON_SCHEMA], **_SESSION_DOCUMENT))}, JSON_SCHEMA),
    "sessions": Document("kit sessions --json", {"sessions": _list(_SESSION)}),
    "history": Document("kit history --json", {"histories": _list(_HISTORY)}),
    "compare-sessions": Document("kit compare-sessions --json",
                                 {"before": _SESSION, "after": _SESSION, **_fields(SessionDiff)}),
    "nightly": Document("kit nightly, as nightly.json", {
        "name": str, "started": float, "result": str, "exit_code": int, "tasks": _list(_TASK)}),
    "fleet-show": Document("kit fleet show --json", _fields(FleetAnswer, arms=_list(_FLEET_ARM)), 2),
    "fleet-status": Document("kit fleet status --json", {
        "machines": _list(_table("MachineStatus", **_fields(Member), runs=list[ShareStatus]))}),
    "matrix": Document("kit matrix --json", {
        "class": str, "reference": str, "margin": float, "take": str, "equivalent": list[str],
        "inconclusive": list[str], "wrong_for": _list(_WRONG_FOR), "rows": _list(_MATRIX_ROW), "means": _list(_MEAN),
        "classes": list[str], "without": list[str], "left_out": list[LeftOut]}),
    "scenarios": Document("kit scenarios --json", {"scenarios": list[Scenario]}),
    "images": Document("kit image list --json", {"images": list[Image]}),
    "kernels": Document("kit kernel list --json", {"kernels": list[BuiltKernel]}),
    "doctor": Document("kit doctor --json", {"diagnoses": list[Diagnosis]}),
    "sync": Document("kit sync --json", {"store": str, "delivered": _list(_WAITING), "waits": _list(_WAITING)}),
    "prune": Document("kit prune --json", {
        "dry_run": bool, "sessions": _list(_REMOVED), "kept": dict[str, str], "logs": list[str], "caches": list[str]}),
    "config": Document("kit config --json", {"files": list[str], "settings": GenericAlias(dict, (str, _SETTING))}),
}  # fmt: skip
