"""The documents that commands write."""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias
from typing import Any, Literal, get_type_hints

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.analyse import Analysis
from kit.analysis.session.difference import Difference
from kit.analysis.session.ranking import Ranking, RankRow
from kit.analysis.session.session_diff import SessionDiff
from kit.arms.image import Image
from kit.cli.document import Document, fields_of, list_of, record
from kit.extensions import EXTRAS, merged
from kit.model.sample import PHASE_FIELDS, Call, Phase, Sample
from kit.model.scenario import Scenario
from kit.model.session import Session
from kit.parsers.figure import Reported
from kit.report.data.structured import JSON_SCHEMA, PARTS, SAMPLE_FIELDS, with_extra_parts
from kit.session.trial import Diagnosis

_SESSION = record("SessionFacts", **fields_of(Session, "samples", baselines=dict[str, str], guest=str))
_SAMPLE = {key: kind for key, kind in fields_of(Sample).items() if key in SAMPLE_FIELDS}
_PHASE = {key: kind for key, kind in fields_of(Phase).items() if key in PHASE_FIELDS and key not in ("name", "status")}
_ROW = {
    **{"arm": str, "point": str, "round": int, "kind": str, "phase": str | None, "status": str},
    **{key: kind | None for key, kind in _PHASE.items()},
    **_SAMPLE,
    **{"rerun_of": int | None, "digests": dict[str, str], "reported": list[Reported]},
}  # fmt: skip
_SAMPLE_ROW = record("SampleRow", **_ROW)
_ANALYSIS = get_type_hints(Analysis)
_OF_EXTRAS = {
    part: get_type_hints(extra.load(maker))["return"] for extra in EXTRAS for part, maker in extra.analyses.items()
}
_SESSION_DOCUMENT = {
    "session": _SESSION,
    "samples": list_of(_SAMPLE_ROW),
    "warmups": list_of(_SAMPLE_ROW),
    "traced": list_of(record("TracedRow", **_ROW, calls=list[Call])),
    "comparisons": tuple[Comparison, ...],
    **with_extra_parts({part: _ANALYSIS[part] for part in PARTS}, _OF_EXTRAS),
}
_ENDS = dict.fromkeys(("low", "high", "low_all", "high_all"), float | None)
_BOUNDS = dict.fromkeys(("low_bound", "high_bound"), float | None)
_DIFFERENCE = record("Difference", **fields_of(Difference, ratio=float, n=int, visible=float, **_BOUNDS, **_ENDS))
_RANK_ROW = record("RankRow", **fields_of(RankRow, against=_DIFFERENCE | None))
_SESSION_DOCUMENT["rankings"] = list_of(record("Ranking", **fields_of(
    Ranking, rows=list_of(_RANK_ROW), filesystems=list_of(_DIFFERENCE), pairs=list_of(_DIFFERENCE)
)))  # fmt: skip
_REMOVED = record("RemovedSession", id=str, created=float, title=str)
_SETTING = record("SettingRecord", **{"value": Any, "from": str})

_CORE: Mapping[str, Document] = {
    "session": Document("kit compare --json, kit show --json, kit import --json and pytest --kit-json of one session",
                        _SESSION_DOCUMENT, JSON_SCHEMA),
    "pytest": Document("pytest --kit-json of several sessions", {"sessions": list_of(record(
        "SessionDocument", schema=Literal[JSON_SCHEMA], **_SESSION_DOCUMENT))}, JSON_SCHEMA),
    "sessions": Document("kit sessions --json", {"sessions": list_of(_SESSION)}),
    "compare-sessions": Document("kit compare-sessions --json",
                                 {"before": _SESSION, "after": _SESSION, **fields_of(SessionDiff)}),
    "scenarios": Document("kit scenarios --json", {"scenarios": list[Scenario]}),
    "images": Document("kit image list --json", {"images": list[Image]}),
    "doctor": Document("kit doctor --json", {"diagnoses": list[Diagnosis]}),
    "prune": Document("kit prune --json", {
        "dry_run": bool, "sessions": list_of(_REMOVED), "kept": dict[str, str], "logs": list[str],
        "caches": list[str]}),
    "config": Document("kit config --json", {"files": list[str], "settings": GenericAlias(dict, (str, _SETTING))}),
}  # fmt: skip

#: With those of extras.
DOCUMENTS = merged(
    _CORE,
    (
        (document.after, name, document)
        for extra in EXTRAS
        for name, maker in extra.documents.items()
        if (document := extra.load(maker))
    ),
)
