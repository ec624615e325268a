"""What a page shows of a session: all figures and words made ready, so that templates hold looks alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.analyse import Analysis, whole_real
from kit.analysis.changepoint import Track
from kit.analysis.compare import Comparison
from kit.analysis.ladder import Ladder
from kit.analysis.profiles import analyse_profiles
from kit.analysis.ranking import Ranking
from kit.analysis.regression import Finding
from kit.analysis.split_session import answer_split
from kit.analysis.threshold import Threshold
from kit.model.fact import CACHES, IMAGE, LOAD, PARAMETERS, makers
from kit.model.sample import TOTAL
from kit.model.session import Session
from kit.report import course, shown_session, units
from kit.report.calls import CallTable, call_notes, call_sentences, call_tables, whole_runs
from kit.report.explain import explain, where
from kit.report.farm import FarmView, view_farm
from kit.report.history import change_lines
from kit.report.interval import percent_interval
from kit.report.ladder import shares, whole_of
from kit.report.notes import copied
from kit.report.plot import Picture, plot_attribution, plot_flame, plot_intervals, plot_runs, plot_tasks, plot_track
from kit.report.profile import ProfileTable, about, differs, tables
from kit.report.ranking import caption, cells, headings, headline, sentences
from kit.report.structured import document
from kit.report.tasks import TaskTable, task_tables
from kit.report.verdict import assurance_lines, sentence

HEADERS = ("arm", "baseline", "point", "phase", "metric", "ratio", "low", "high", "difference", "n", "verdict")
#: Which of them can be chosen from a list, and what is chosen at first.
_FILTERS = (("arm", ""), ("point", ""), ("phase", ""), ("metric", "real"))
_INTERVALS = ("arm / baseline", "change, 95 %", "verdict")


@dataclass(frozen=True)
class Cell:
    """``value`` is what a figure is sorted by; None for words."""

    text: str
    value: float | None = None
    kind: str = ""


@dataclass(frozen=True)
class TrackView:
    picture: Picture
    lines: Sequence[str]
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class RankingView:
    headline: str
    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    lines: Sequence[str]


@dataclass(frozen=True)
class TasksView:
    """Of one phase at one point."""

    picture: Picture | None
    tables: Sequence[TaskTable]


@dataclass(frozen=True)
class FlameView:
    """``coloured``: against a baseline. ``line``: what differs, in words."""

    picture: Picture
    coloured: bool
    line: str
    tables: Sequence[ProfileTable]


@dataclass(frozen=True)
class ProfileView:
    """At one point."""

    about: str
    flames: Sequence[FlameView]


@dataclass(frozen=True)
class CallsView:
    """Of one arm against its baseline."""

    lines: Sequence[str]
    tables: Sequence[CallTable]
    notes: Sequence[str]


@dataclass(frozen=True)
class SessionView:
    """Everything that session.html.j2 asks for."""

    id: str
    title: str
    when: str
    rounds: str
    status: str
    guest: str
    rankings: Sequence[RankingView]
    farm: FarmView | None
    measured: str
    arms: Sequence[tuple[str, str, str]]  # name, in words, baseline
    answers: Sequence[str]
    advice: Sequence[str]
    confidence: Sequence[str]
    notes: Sequence[str]
    failures: Sequence[str]
    findings: Sequence[Sequence[str]]
    intervals: Picture | None
    interval_headers: Sequence[str]
    interval_rows: Sequence[Sequence[str]]
    attribution: Picture | None
    attribution_headers: Sequence[str]
    attribution_rows: Sequence[Sequence[str]]
    runs: Picture | None
    run_headers: Sequence[str]
    run_rows: Sequence[Sequence[str]]
    tasks: Sequence[TasksView]
    profiles: Sequence[ProfileView]
    calls: Sequence[CallsView]
    tracks: Sequence[TrackView]
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    filters: Sequence[tuple[str, int, Sequence[str], str]]
    not_run: Sequence[Sequence[str]]
    facts: Sequence[tuple[str, str]]
    data: str
    links: Sequence[tuple[str, str]] = ()

    @property
    def pictures(self) -> list[Picture]:
        found = [self.intervals, self.attribution, *(part.picture for part in self.tasks), self.runs]
        found += [flame.picture for part in self.profiles for flame in part.flames]
        found += [track.picture for track in self.tracks]
        return [item for item in found if item]


def view(
    session: Session,
    analysis: Analysis,
    tracks: Sequence[Track] = (),
    findings: Sequence[Finding] = (),
    links: Sequence[tuple[str, str]] = (),
) -> SessionView:
    """``links``: where the data are, by name; without any they are part of the page."""
    session, analysis = shown_session(session, analysis)
    said = explain(session, analysis)
    found = whole_real(analysis.comparisons)
    ladders = _whole_ladders(analysis)
    keys = [(arm, point) for point in analysis.runs.points for arm in session.arms]
    attribution = plot_attribution(ladders, f"{session.id}-attribution")
    headers, rows = _table(analysis.comparisons)
    limits = [item.threshold for item in findings]
    return SessionView(
        id=session.id,
        title=session.title,
        when=f"{units.moment(session.created)} UTC",
        rounds=course.rounds(session),
        status=session.status,
        guest=session.guest,
        rankings=[_ranking(session, analysis, item) for item in analysis.rankings],
        farm=view_farm(answer_split(session)) if makers(session.facts) else None,
        measured=_measured(session, analysis),
        arms=[(arm, where(arm), dict(session.baselines).get(arm, units.NOTHING)) for arm in session.arms],
        answers=_tied(said.answers),
        advice=_tied(said.advice),
        confidence=_tied([*said.confidence, *assurance_lines(analysis)]),
        notes=_tied(said.notes),
        failures=[f"{where}: {item.error} (log: {item.log})" for where, item in course.failed(session)],
        findings=[_finding(item) for item in findings],
        intervals=plot_intervals(found, f"{session.id}-intervals"),
        interval_headers=_INTERVALS,
        interval_rows=[
            (units.against(item), percent_interval(item.ratio, item.low, item.high), sentence(item)) for item in found
        ],
        attribution=attribution,
        attribution_headers=("arm", "step", "seconds", "% of the baseline"),
        attribution_rows=[row for item in ladders for row in _ladder_rows(item)] if attribution else (),
        runs=plot_runs(analysis.runs, keys, f"{session.id}-runs"),
        run_headers=("arm", "runs", "mean", "least", "most"),
        run_rows=[_run_row(analysis, arm, point) for arm, point in keys if analysis.runs.has((arm, point))],
        tasks=_tasks(session, analysis),
        profiles=_profiles(session),
        calls=_calls(analysis),
        tracks=[track_view(track, limits, f"{session.id}-history-{i}") for i, track in enumerate(tracks, 1)],
        headers=headers,
        rows=rows,
        filters=_filters(headers, rows),
        not_run=[(item.arm, item.reason, item.fix) for item in course.not_run(session)],
        facts=list(session.facts.items()),
        # A page must not end its script early: "<" has no place in it.
        data="" if links else json.dumps(document(session, analysis)).replace("<", "\\u003c"),
        links=links,
    )


def _ranking(session: Session, analysis: Analysis, ranking: Ranking) -> RankingView:
    return RankingView(
        _tied([headline(ranking, copied(session))])[0], caption(ranking), headings(ranking),
        cells(ranking, analysis.comparisons, ranking.rows),
        _tied(list(sentences(ranking))),
    )  # fmt: skip


def _measured(session: Session, analysis: Analysis) -> str:
    """The workload, its phases and settings in one sentence."""
    runs, facts = analysis.runs, session.facts
    keys = [(arm, point) for point in runs.points for arm in session.arms if runs.has((arm, point))]
    phases = [name for name in runs.phases(keys) if name != TOTAL] if keys else []
    parts = [f"{session.title}: {len(phases)} phase{'s' if len(phases) != 1 else ''} ({', '.join(phases)})"]
    parts += [f"{kind.key} {kind.text(facts)}" for kind in (PARAMETERS, IMAGE, CACHES, LOAD) if kind.key in facts]
    return f"{'; '.join(parts)}; {course.rounds(session)} of {len({arm for arm, _ in keys})} arms in random order."


def _finding(item: Finding) -> tuple[str, str, str, str]:
    found = item.comparison
    interval = percent_interval(found.ratio, found.low, found.high) if found else units.NOTHING
    return f"{item.threshold}{units.at(found.point) if found else ''}", item.status, interval, item.why


def _tasks(session: Session, analysis: Analysis) -> list[TasksView]:
    runs, tables = analysis.runs, task_tables(analysis, "; ")
    places = dict.fromkeys((table.phase, table.point) for table in tables)
    found = []
    for i, (phase, point) in enumerate(places, 1):
        keys = [(arm, point) for arm in session.arms if runs.has((arm, point))]
        picture = plot_tasks(runs, keys, phase, f"{session.id}-tasks-{i}")
        found.append(TasksView(picture, [table for table in tables if (table.phase, table.point) == (phase, point)]))
    return found


def _calls(analysis: Analysis) -> list[CallsView]:
    return [
        CallsView(list(call_sentences(item)), call_tables(item), list(call_notes(item, analysis)))
        for item in whole_runs(analysis)
    ]


def _profiles(session: Session) -> list[ProfileView]:
    made = []
    for i, found in enumerate(analyse_profiles(session), 1):
        said = about(found)
        name = f"{session.id}-flame-{i}-"
        flames = [
            FlameView(plot_flame(flame, arm, "", f"{name}{number}", said), False, "", ())
            for number, (arm, flame) in enumerate(found.flames.items(), 1)
        ]
        for number, item in enumerate(found.arms, len(flames) + 1):
            picture = plot_flame(item.flame, item.arm, item.baseline, f"{name}{number}", said)
            flames.append(FlameView(picture, True, differs(item, found.point), tables(item, found.point)))
        made.append(ProfileView(said, flames))
    return made


def _whole_ladders(analysis: Analysis) -> list[Ladder]:
    keys = dict.fromkeys((item.arm, item.point) for item in analysis.ladders)
    found = [whole_of([one for one in analysis.ladders if (one.arm, one.point) == key], "real") for key in keys]
    return [item for item in found if item]


def _ladder_rows(item: Ladder) -> list[tuple[str, str, str, str]]:
    name = units.against(item)
    return [
        (name, step.name, f"{step.seconds.estimate:+z.3f} s", shares(step.share)) for step in (*item.steps, item.whole)
    ]


def _run_row(analysis: Analysis, arm: str, point: str) -> tuple[str, ...]:
    key = (arm, point)
    values = analysis.runs.values(key, analysis.runs.phases([key])[-1], "real")
    known = values[values > 0]
    figures = (known.mean(), known.min(), known.max()) if known.size else ()
    return f"{arm}{units.at(point)}", str(values.size), *(units.seconds(float(figure)) for figure in figures)


def track_view(track: Track, limits: Sequence[Threshold], name: str) -> TrackView:
    """A series as a plot, sentences and a table; with the limit on the whole run where ``limits`` has one."""
    newest = track.series.entries[-1].outcome
    item = newest.comparison
    mine = [
        one.limit
        for one in limits
        if (one.arm, one.metric) == (item.arm, item.metric) and (one.phase == item.phase if one.phase else newest.whole)
    ]
    rows = [
        (
            entry.session,
            units.moment(entry.created),
            units.seconds(entry.outcome.mean),
            units.seconds(entry.outcome.base_mean),
            percent_interval(entry.ratio, entry.outcome.comparison.low, entry.outcome.comparison.high),
        )
        for entry in track.series.entries
    ]
    lines = change_lines(track)
    if track.series.began_with:
        lines.append(f"this series began because these changed: {'; '.join(map(str, track.series.began_with))}")
    picture = plot_track(track, mine[0] if mine else None, name)
    return TrackView(picture, lines, ("session", "date, UTC", "arm", "baseline", "change, 95 %"), rows)


def _table(comparisons: Sequence[Comparison]) -> tuple[list[str], list[list[Cell]]]:
    """All of them; without the column of the sweep's points where nothing was swept."""
    rows = [_row(item) for item in comparisons]
    shown = [i for i, name in enumerate(HEADERS) if name != "point" or any(row[i].text for row in rows)]
    return [HEADERS[i] for i in shown], [[row[i] for i in shown] for row in rows]


def _row(item: Comparison) -> tuple[Cell, ...]:
    unit = "" if item.unit == "s" else f" {item.unit}"
    kind = {"more": "more", "less": "less"}.get(item.verdict_all, "")
    return (
        Cell(item.arm),
        Cell(item.baseline),
        Cell(item.point),
        Cell(item.phase),
        Cell(f"{item.metric}{unit}"),
        *(_figure(value, "{:.3f}") for value in (item.ratio, item.low, item.high)),
        _figure(item.difference, "{:+.4g}"),
        Cell(str(item.n), item.n),
        Cell(_verdict(item), kind=kind),
    )


def _verdict(item: Comparison) -> str:
    if item.verdict == item.verdict_all or item.control:
        return item.verdict
    return f"{item.verdict} taken alone, not among {item.family}"


def _tied(lines: Sequence[str]) -> list[str]:
    """A figure and its percent sign stay on one line."""
    return [line.replace(" %", "\u00a0%") for line in lines]


def _figure(value: float | None, form: str) -> Cell:
    return Cell(units.NOTHING) if value is None else Cell(form.format(value), value)


def _filters(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[tuple[str, int, Sequence[str], str]]:
    found: list[tuple[str, int, Sequence[str], str]] = []
    for name, chosen in _FILTERS:
        if name not in headers:
            continue
        column = headers.index(name)
        values = list(dict.fromkeys(row[column].text for row in rows if row[column].text))
        if len(values) > 1:
            found.append((name, column, values, chosen))
    return found
