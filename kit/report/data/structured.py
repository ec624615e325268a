"""JSON and CSV of all data, for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from kit.model.sample import PHASE_FIELDS, Phase, Sample
from kit.model.session import Session
from kit.report.format.csv_rows import render_sheet

if TYPE_CHECKING:
    from kit.analysis.session.analyse import Analysis
    from kit.analysis.session.difference import Difference
    from kit.analysis.session.ranking import Ranking
    from kit.analysis.stats.estimate import Estimate

#: Raised when a consumer of the JSON would have to change.
JSON_SCHEMA = 2
SAMPLE_FIELDS = (
    "calibration_before", "calibration_after", "memory_before", "memory_after", "engine_seconds", "started", "error",
    "log", "flags", "load",
)  # fmt: skip
#: Parts of an analysis that the JSON holds beside the comparisons.
PARTS = ("rankings", "ladders", "growths", "floors", "drifts", "flagged", "tasks", "calls", "overheads", "busy")


def render_json(session: Session, analysis: Analysis) -> str:
    return json.dumps(document(session, analysis), indent=1)


def document(session: Session, analysis: Analysis) -> dict[str, Any]:
    """Return everything of a session as JSON types."""
    return {
        "schema": JSON_SCHEMA,
        "session": session_facts(session),
        "samples": [row for sample in session.samples if sample.counts for row in sample_rows(sample)],
        "warmups": [row for sample in session.samples if sample.kind == "warmup" for row in sample_rows(sample)],
        "traced": [row for sample in session.samples if sample.kind == "traced" for row in _traced_rows(sample)],
        "comparisons": [asdict(comparison) for comparison in analysis.comparisons],
        **{part: [asdict(record) for record in getattr(analysis, part)] for part in PARTS},
        "rankings": [_ranking(ranking) for ranking in analysis.rankings],
    }


def _ranking(ranking: Ranking) -> dict[str, Any]:
    rows = [{**asdict(row), "against": row.against and _difference(row.against)} for row in ranking.rows]
    return {
        **asdict(ranking), "rows": rows, "filesystems": list(map(_difference, ranking.filesystems)),
        "pairs": list(map(_difference, ranking.pairs)),
    }  # fmt: skip


def _difference(pair: Difference) -> dict[str, Any]:
    bounded = pair.ratio.bounded
    return {
        **asdict(pair), **estimate_columns("ratio", pair.ratio), "n": pair.ratio.n, "visible": pair.ratio.visible,
        "low_bound": bounded and bounded.low, "high_bound": bounded and bounded.high,
    }  # fmt: skip


def estimate_columns(name: str, value: Estimate | None) -> dict[str, Any]:
    """Return an estimate as flat figures."""
    together = value and value.together
    return {
        name: value and value.estimate, "low": value and value.low, "high": value and value.high,
        "low_all": together and together.low, "high_all": together and together.high,
    }  # fmt: skip


def session_facts(session: Session) -> dict[str, Any]:
    """Return a session without its samples as JSON types."""
    facts = asdict(replace(session, samples=()))
    del facts["samples"]
    facts["baselines"] = dict(session.baselines)
    facts["facts"] = dict(session.facts)
    facts["guest"] = session.guest
    return facts


def sample_rows(sample: Sample) -> Iterator[dict[str, Any]]:
    """Return one row per phase, seconds and bytes; a run that failed before its first phase is one row without
    figures."""
    whole = {name: getattr(sample, name) for name in SAMPLE_FIELDS}
    for phase in sample.phases or (None,):
        yield {
            "arm": sample.arm,
            "point": sample.point,
            "round": sample.round,
            "kind": sample.kind,
            "phase": phase.name if phase else None,
            "status": phase.status if phase else sample.status,
            **_figures(phase),
            **whole,
            "rerun_of": sample.rerun_of,
            "digests": dict(sample.digests),
            "reported": [asdict(figure) for figure in phase.reported] if phase else [],
        }


def _traced_rows(sample: Sample) -> Iterator[dict[str, Any]]:
    for row, phase in zip(sample_rows(sample), sample.phases or (None,), strict=True):
        yield {**row, "calls": [asdict(call) for call in phase.calls] if phase else []}


def _figures(phase: Phase | None) -> dict[str, Any]:
    names = [name for name in PHASE_FIELDS if name not in ("name", "status")]
    return {name: getattr(phase, name) if phase else None for name in names}


def render_csv(session: Session, analysis: Analysis) -> str:
    rows = [row for sample in session.samples if sample.counts for row in sample_rows(sample)]
    common = {"session": session.id, "guest": session.guest}
    columns = [*common, *(name for name in (rows[0] if rows else {}) if name not in ("digests", "reported"))]
    figures = dict.fromkeys(
        figure["name"] for row in rows for figure in row["reported"] if figure["name"] not in columns
    )
    return render_sheet(
        [*columns, *figures],
        ({**{figure["name"]: figure["value"] for figure in row["reported"]}, **common, **row} for row in rows),
    )
