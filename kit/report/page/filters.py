"""Filters of templates: rows, sentences and figures of results, so that templates contain layout alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.analysis.runs.arm_runs import ArmRuns
from kit.analysis.runs.compare import Comparison
from kit.analysis.session.analyse import Analysis, whole_real
from kit.analysis.session.ladder import Ladder
from kit.analysis.session.ranking import Ranking
from kit.model.fact import CACHES, IMAGE, LOAD, PARAMETERS
from kit.model.sample import TOTAL
from kit.model.session import Session
from kit.report.data.structured import document
from kit.report.format import units
from kit.report.format.interval import amount_interval, percent_interval
from kit.report.format.verdict import assurance_lines, sentence
from kit.report.text import summary
from kit.report.text.advice import headline
from kit.report.text.caveats import copied
from kit.report.text.explain import where
from kit.report.text.ladder import shares
from kit.report.text.ranking import caption, cells, headings, sentences

HEADERS = ("arm", "baseline", "point", "phase", "metric", "ratio", "low", "high", "difference", "n", "verdict")
#: Renderers that can be selected from a list, and the first selection.
_FILTERS = (("arm", ""), ("point", ""), ("phase", ""), ("metric", "real"))


@dataclass(frozen=True)
class Cell:
    """A table's cell. ``value``: the sort key of a figure; None for words."""

    text: str
    value: float | None = None
    kind: str = ""


def tied(line: str) -> str:
    """Return the text with no line break between a figure and its percent sign."""
    return line.replace(" %", "\u00a0%")


def arm_rows(session: Session) -> list[tuple[str, str, str]]:
    """Return name, description, baseline."""
    baselines = dict(session.baselines)
    return [(arm, where(session, arm), baselines.get(arm, units.NOTHING)) for arm in session.arms]


def ranking_headline(ranking: Ranking, session: Session) -> str:
    return headline(ranking, copied(session))


def ranking_rows(ranking: Ranking) -> Sequence[Sequence[str]]:
    return cells(ranking, ranking.rows)


def interval_row(comparison: Comparison, margin: float) -> tuple[str, str, str]:
    """Return arm and baseline, change, verdict."""
    return units.against(comparison), percent_interval(comparison.estimate), sentence(comparison, margin)


def embedded(session: Session, analysis: Analysis) -> str:
    """Return everything as JSON for a script element, which no "<" must end early."""
    return json.dumps(document(session, analysis)).replace("<", "\\u003c")


def not_run_rows(session: Session) -> list[tuple[str, str, str]]:
    """Return arms, reason, fix."""
    return [(entry.arm, entry.reason, entry.fix) for entry in summary.not_run(session)]


def measured(session: Session, analysis: Analysis) -> str:
    """Return the workload, its phases and settings in one sentence."""
    facts = session.facts
    phases = list(dict.fromkeys(name for point in analysis.points for name in point.phases if name != TOTAL))
    parts = [f"{session.title}: {len(phases)} phase{'s' if len(phases) != 1 else ''} ({', '.join(phases)})"]
    parts += [f"{kind.key} {kind.text(facts)}" for kind in (PARAMETERS, IMAGE, CACHES, LOAD) if kind.key in facts]
    arms = {runs.arm for runs in analysis.arms}
    how = f"of {len(arms)} arms" if session.unpaired else f"of {len(arms)} arms in random order"
    return f"{'; '.join(parts)}; {summary.rounds(session)} {how}."


def ladder_rows(ladder: Ladder) -> list[tuple[str, str, str, str]]:
    """Return, for each step and for the whole: arm and baseline, name, seconds, share."""
    name = units.against(ladder)
    return [
        (
            name,
            step.name,
            amount_interval(step.seconds),
            shares(step.share),
        )
        for step in (*ladder.steps, ladder.whole)
    ]


def run_row(runs: ArmRuns) -> tuple[str, ...]:
    """Return arm, number of runs, mean, least and most seconds."""
    time_range = runs.time_range
    figures = (time_range.mean, time_range.least, time_range.most) if time_range else ()
    return f"{runs.arm}{units.at(runs.point)}", str(runs.count), *map(units.seconds, figures)


def comparison_table(comparisons: Sequence[Comparison]) -> tuple[list[str], list[list[Cell]]]:
    """Return all comparisons; without the column of the sweep's points if nothing was swept."""
    rows = [_row(comparison) for comparison in comparisons]
    columns = [i for i, name in enumerate(HEADERS) if name != "point" or any(row[i].text for row in rows)]
    return [HEADERS[i] for i in columns], [[row[i] for i in columns] for row in rows]


def _row(comparison: Comparison) -> tuple[Cell, ...]:
    unit = "" if comparison.unit == "s" else f" {comparison.unit}"
    kind = {"more": "more", "less": "less"}.get(comparison.verdict_all, "")
    return (
        Cell(comparison.arm),
        Cell(comparison.baseline),
        Cell(comparison.point),
        Cell(comparison.phase),
        Cell(f"{comparison.metric}{unit}"),
        *(_figure(value, "{:.3f}") for value in (comparison.ratio, comparison.low, comparison.high)),
        _figure(comparison.difference, "{:+.4g}"),
        Cell(str(comparison.n), comparison.n),
        Cell(_verdict(comparison), kind=kind),
    )


def _verdict(comparison: Comparison) -> str:
    if comparison.verdict == comparison.verdict_all or comparison.control:
        return comparison.verdict
    return f"{comparison.verdict}, but not significant after correcting for {comparison.family} comparisons"


def _figure(value: float | None, form: str) -> Cell:
    return Cell(units.NOTHING) if value is None else Cell(form.format(value), value)


def comparison_filters(
    headers: Sequence[str], rows: Sequence[Sequence[Cell]]
) -> list[tuple[str, int, Sequence[str], str]]:
    filters: list[tuple[str, int, Sequence[str], str]] = []
    for name, chosen in _FILTERS:
        if name not in headers:
            continue
        column = headers.index(name)
        values = list(dict.fromkeys(row[column].text for row in rows if row[column].text))
        if len(values) > 1:
            filters.append((name, column, values, chosen))
    return filters


FILTERS: Mapping[str, Callable[..., Any]] = {
    "arm_rows": arm_rows,
    "assurance": assurance_lines,
    "caption": caption,
    "comparison_filters": comparison_filters,
    "comparison_table": comparison_table,
    "embedded": embedded,
    "failed": summary.failed,
    "headings": headings,
    "headline": ranking_headline,
    "interval_row": interval_row,
    "ladder_rows": ladder_rows,
    "measured": measured,
    "moment": units.moment,
    "not_run_rows": not_run_rows,
    "ranking_rows": ranking_rows,
    "rounds": summary.rounds,
    "run_row": run_row,
    "sentences": sentences,
    "tied": tied,
    "whole_real": whole_real,
}
