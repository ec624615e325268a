"""The first screen: which arm to use, what each costs, why, what was not run, and where the rest is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tabulate import tabulate

from kit.analysis.session import ladder
from kit.analysis.session.analyse import Analysis
from kit.analysis.session.difference import Difference
from kit.analysis.session.ladder import Ladder
from kit.analysis.session.machines import machines_of
from kit.analysis.session.outlook import Outlook, find_outlook
from kit.analysis.session.ranking import DURABLE, REAL, Ranking
from kit.analysis.session.timing import count_rounds, elapsed
from kit.core.listing import in_words
from kit.core.quantity import shown_duration
from kit.model.command_line import until_decided_command
from kit.model.fact import NO_TRACING, TOGETHER, WORKER
from kit.model.plan import MOST_ROUNDS
from kit.model.sample import TRACED
from kit.model.scenario import COPIES, copies_at, parse_point
from kit.model.session import INTERRUPTED, Session
from kit.report.format import units
from kit.report.format.interval import percent_interval, share_interval
from kit.report.format.wrap import NARROW, screen, wrap, wrap_command
from kit.report.renderer import flags
from kit.report.text import summary
from kit.report.text.advice import advice, difference, sweep_advice, switch_notes
from kit.report.text.causes import causes
from kit.report.text.caveats import (
    busy_notes,
    copied,
    copied_why,
    equivalence_notes,
    extra_notes,
    footprint_notes,
    left_out_notes,
    nosync_notes,
    outside_cpu_notes,
    strain_notes,
    unranked_notes,
    way_taken,
    written_meanwhile,
)
from kit.report.text.ranking import caption, group_notes, legend, table
from kit.report.text.tasks import largest_part

#: What the first screen takes at most.
COLUMNS, LINES = NARROW, 30
ROWS = 10
#: Rows that stay on a full screen; lines that are no row: blank ones, the table's heading and end, a note.
_FEWEST, _AROUND = 4, 8
_LOG = "  full log: "
#: Arms that a line names at most.
_NAMED = 3
#: Lines of all reasons why arms were not run; where they take more, the screen names the arms alone.
_REASONS = 2
_STEPS = {ladder.RUNTIME: "container", ladder.READ: "reading", ladder.WRITE: "writing", ladder.FLUSH: "late flush"}


def render_answer(session: Session, analysis: Analysis) -> str:
    """Return at most LINES lines and COLUMNS columns, or the terminal's, if less."""
    return answer(session, analysis, screen())


def answer(session: Session, analysis: Analysis, width: int = COLUMNS) -> str:
    parts = [_head(session, analysis, width), _advice(session, analysis, width)]
    failures = "\n".join(_failures(session)).splitlines()
    above = [line if line.startswith(_LOG) else _cut(line, width) for line in failures]  # a cut path is no path
    below, more = _not_run(session, width), _more(session, analysis, width)
    fixed = [*parts, *above, *below, *more]
    rows = LINES - _AROUND - sum(part.count("\n") + 1 for part in fixed if part)
    parts += _tables(session, analysis, width, max(_FEWEST, min(ROWS, rows)))
    placed = [*(part for part in parts if part), *above, *below, *more]
    free = LINES - sum(part.count("\n") + 1 for part in placed) - sum(bool(part) for part in parts) - 1
    notes = [wrap(line, width, most=3) for line in _notes(session, analysis)]
    parts += ["\n".join([*above, *_fit(notes, free), *below]), "\n".join(more)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _fit(lines: Sequence[str], free: int) -> list[str]:
    """Return as many as ``free`` lines take; the last one says how many are left out."""
    fitting: list[str] = []
    for line in lines:
        free -= line.count("\n") + 1
        if free < (len(fitting) + 1 < len(lines)):
            left_out = len(lines) - len(fitting)
            return [*fitting, f"{left_out} more note{'s' if left_out > 1 else ''}: --full"]
        fitting.append(line)
    return fitting


def _head(session: Session, analysis: Analysis, width: int) -> str:
    lines = [wrap(summary.summary(session, analysis), width)]  # whole: its end says whether the session reached its own
    if session.guest:
        lines.append(wrap(f"IN A GUEST: {session.guest}", width))  # and this says what the figures are worth
    strain = [*busy_notes(session, analysis), *strain_notes(session)]
    lines += [wrap(line, width, most=3) for line in strain]  # as this does
    return "\n".join(lines)


def _advice(session: Session, analysis: Analysis, width: int) -> str:
    if len(analysis.rankings) == 1:
        lines = advice(analysis.rankings[0], copied(session))
    else:
        lines = sweep_advice(analysis.rankings, copied(session))
    paragraphs = [wrap(line, width, most=4) for line in lines]
    if lines:
        why_not = copied_why(session)
        paragraphs += [wrap(f"Not considered: {arms} ({why}; see --cache cold).", width) for arms, why in why_not]
    paragraphs += [
        (wrap_command if line.startswith("kit ") else wrap)(line, width) for line in _undecided(session, analysis)
    ]
    return "\n".join(paragraphs)


def _undecided(session: Session, analysis: Analysis) -> Iterator[str]:
    """Say which arms are inconclusive, and what would decide them."""
    undecided = [(ranking, rows) for ranking in analysis.rankings if (rows := ranking.undecided)]
    if not undecided:
        yield from what_decides(session, ())
        return
    entries = [
        _pair_words(row.against if row.pick else row.against.turned, ranking.point)
        for ranking, rows in undecided
        for row in rows
        if row.against and row.against.ratio.together.low is not None
    ]
    if not entries:
        return
    seconds = elapsed(session)
    after = shown_duration(seconds) if seconds else summary.rounds(session)
    more = f"; {len(entries) - _NAMED} more" if len(entries) > _NAMED else ""
    yield f"Inconclusive after {after}: {'; '.join(entries[:_NAMED])}{more}."
    yield from what_decides(session, [ranking for ranking, _ in undecided])
    if analysis.flagged:
        first = analysis.flagged[0]
        count = len(analysis.flagged)
        runs = "1 run was" if count == 1 else f"{count} runs were"
        which = "" if count == 1 else "the first is "
        yield f"{runs} disturbed: {which}{first.arm}{units.at(first.point)}, round {first.round}: {first.why}."


def _pair_words(pair: Difference, point: str) -> str:
    return f"{pair.arm} vs {pair.other}{units.at(point)} {difference(pair)}"


def what_decides(session: Session, rankings: Sequence[Ranking]) -> Iterator[str]:
    """Say what would decide these rankings, and the command for it; nothing where no command would. An interrupted
    session can go on in any case."""
    if session.imported:
        return
    if session.status == INTERRUPTED and session.resume_command:
        yield "To continue where it stopped:"
        yield session.resume_command
    elif rankings and not machines_of(session):
        yield from _to_decide(session, rankings)


def _to_decide(session: Session, rankings: Sequence[Ranking]) -> Iterator[str]:
    """Say how much longer the session would take, with the range in which that lies with 80 %."""
    outlook = find_outlook(session, rankings)
    hopeless = [f"{arm}{units.at(point)}" for arm, point in outlook.hopeless]
    if hopeless:
        more = f" and {len(hopeless) - _NAMED} more" if len(hopeless) > _NAMED else ""
        what = "did" if count_rounds(session) >= MOST_ROUNDS else "would probably"
        yield (
            f"{MOST_ROUNDS} rounds {what} not decide {', '.join(hopeless[:_NAMED])}{more}: measure with a --margin "
            f"above {units.asked(rankings[0].margin)}, or a longer build."
        )
    if outlook.seconds is None:
        return
    margin = units.asked(rankings[0].margin)
    outcome = f"equivalence{' of the others' if hopeless else ''} within ±{margin} or a difference"
    yield _how_long(outlook, outcome)
    most = min(outlook.seconds[2], outlook.most) / 60
    alone = bool(WORKER.text(session.facts))  # no machine of a fleet continues a session of its own
    if session.request.until_decided and not alone and not any(sample.kind == TRACED for sample in session.samples):
        yield f"kit compare --resume {session.id} --budget {_budget(most)}"
    else:
        budget = _budget(most + (elapsed(session) or 0) / 60)
        command = until_decided_command(session.request, budget)
        yield command or f"Start a new session with --rounds auto --budget {budget}"


def _how_long(outlook: Outlook, outcome: str) -> str:
    """Say how long it takes until that is shown. No figure is given of what more rounds may never show."""
    longest = f"more than {_minutes(outlook.most / 60)}"
    least, likely, most = (
        longest if math.isinf(seconds) else _minutes(seconds / 60) for seconds in outlook.seconds or ()
    )
    if likely == longest:
        return f"To show {outcome} may take {longest} minutes, if more rounds show it at all:"
    span = f" (80 % range {least} to {most})" if least != most else ""
    return f"About {likely} more minute{'s' if likely != '1' else ''}{span} would show {outcome}:"


def _budget(minutes: float) -> str:
    return f"{5 * math.ceil(minutes / 5)}m" if minutes <= 120 else f"{math.ceil(minutes / 60)}h"


def _minutes(minutes: float) -> str:
    return f"{max(minutes, 1):,.0f}"


def _tables(session: Session, analysis: Analysis, width: int, most: int) -> Iterator[str]:
    rankings = analysis.rankings
    if not rankings:
        yield _measured(analysis)
    elif len(rankings) == 1:
        yield table(rankings[0], width, most=most)
    else:
        yield _sweep(rankings, width)


def _measured(analysis: Analysis) -> str:
    """Return what ran and how long it took, where no two arms can be compared."""
    rows = [
        (
            f"{runs.arm}{units.at(runs.point)}",
            units.seconds(runs.mean(runs.whole, "real")),
            str(runs.measured(runs.whole, "real")),
        )
        for runs in analysis.arms
    ]
    if not rows:
        return "Nothing was measured."
    return tabulate(rows, ["arm", "real", "runs"], tablefmt="simple", disable_numparse=True)


def _sweep(rankings: Sequence[Ranking], width: int) -> str:
    """Return a column for each point: each arm against the reference; the first and last points where not all fit."""
    arms = list(dict.fromkeys(row.arm for ranking in rankings for row in ranking.rows))
    columns = list(rankings)
    while True:
        rows = [[arm, *(_at(arm, ranking) for ranking in columns)] for arm in arms]
        if any(COPIES in parse_point(ranking.point) and ranking.metric in (DURABLE, REAL) for ranking in columns):
            rows.append(["copies per hour", *map(_per_hour, columns)])
        headers = ["", *(ranking.point for ranking in columns)]
        table = tabulate(rows, headers, tablefmt="simple", disable_numparse=True)
        if len(columns) <= 2 or max(map(len, table.splitlines())) <= width:
            break
        del columns[len(columns) // 2]
    hidden = len(rankings) - len(columns)
    what = caption(rankings[0]).replace(units.at(rankings[0].point), "", 1)
    lines = [wrap(f"{what}; vs {rankings[0].reference}", width), table]
    return "\n".join([*lines, f"{hidden} points between are left out: --full"] if hidden else lines)


def _per_hour(ranking: Ranking) -> str:
    """Return how many copies of the workload the reference ends in an hour, by the mean time of its groups. The mean of
    the groups' rates would be too high. Other metrics are no time of a group."""
    typical = next((row.typical for row in ranking.rows if row.against is None), None)
    if not typical or ranking.metric not in (DURABLE, REAL):
        return units.NOTHING
    return f"{copies_at(ranking.point) * 3600 / typical:,.0f}"


def _at(arm: str, ranking: Ranking) -> str:
    row = next((row for row in ranking.rows if row.arm == arm), None)
    if row is None:
        return units.NOTHING
    return units.seconds(row.typical) if row.against is None else difference(row.against)


def _why(analysis: Analysis) -> Iterator[str]:
    """Say where the cost of the reference comes from, else that of the first arm that has a ladder; in which tasks and
    calls."""
    ladders = [ladder for ladder in analysis.whole_ladders if ladder.n > 1]
    references = {(ranking.reference, ranking.point) for ranking in analysis.rankings}
    of_references = [ladder for ladder in ladders if (ladder.arm, ladder.point) in references]
    yield from map(_split, (of_references or ladders)[:1])
    tasks = {(cost.comparison.arm, cost.comparison.point): cost for cost in analysis.tasks if cost.largest}
    preferred = [key for key in tasks if key in references]
    for arm, point in (preferred or list(tasks))[:1]:
        yield largest_part(analysis, arm, point)
    added = [*causes(analysis)]
    explained = [cause for cause in added if (cause.arm, cause.point) in references]
    yield from (cause.sentence for cause in (explained or added)[:1] if cause.sentence)


def _split(steps: Ladder) -> str:
    clear, unclear = [], []
    for step in steps.steps:
        share = step.share_all
        if share and share.leaves_out(0.0):
            clear.append(f"{_step(step.name)} {share_interval(share)}")
        else:
            unclear.append(_step(step.name))
    parts = [", ".join(clear)] if clear else []
    parts += [f"{in_words(unclear)}: not significant"] if unclear else []
    return f"Where {steps.arm}'s cost{units.at(steps.point)} comes from: {'; '.join(parts)}."


def _step(name: str) -> str:
    """Return ``runtime tax: cgroup and read tax`` as ``container (cgroup) and reading``."""
    tax, _, part = name.partition(": ")
    words = " and ".join(_STEPS.get(word, word) for word in tax.split(" and "))
    return f"{words} ({part})" if part else words


def _notes(session: Session, analysis: Analysis) -> Iterator[str]:
    """Say how to read the table, and what changes that; the most important first."""
    if len(analysis.rankings) == 1:  # a sweep's table has another legend, and no groups
        yield legend(analysis.rankings[0])
        yield from group_notes(analysis.rankings)
    yield from [*equivalence_notes(analysis)][:1]
    yield from [line for ranking in analysis.rankings for line in switch_notes(ranking)][:1]
    yield from left_out_notes(session)
    yield from nosync_notes(session)
    yield from footprint_notes(analysis)
    yield from _why(analysis)
    yield from [*unranked_notes(analysis)][:1]
    for floor in analysis.floors[:1]:
        change = percent_interval(floor.estimate)
        yield f"Noise: two identical copies of {floor.baseline} differ by {change} (individual)."
    yield from [*outside_cpu_notes(analysis)][:_NAMED]
    for drift in analysis.drifts:
        if drift.found and drift.what != "machine":
            yield f"Drift: the ratio of {drift.what} changes by {units.percent(drift.per_round)} per round."
    yield from analysis.unlike[:1]
    yield from way_taken(session)
    yield from [*written_meanwhile(analysis)][:1]
    if together := TOGETHER.text(session.facts):
        yield together
    yield from extra_notes(session)
    if lacking := NO_TRACING.text(session.facts):
        yield f"Not traced: {lacking}"


def _failures(session: Session) -> Iterator[str]:
    """Show the first with its last words and its log, then the number of the others."""
    failed = summary.failed(session)
    for where, sample in failed[:1]:
        yield f"Failed: {where}: {sample.error or 'unknown reason'}"
        if sample.log:
            yield f"{_LOG}{sample.log}"
    if len(failed) > 1:
        yield f"Failed: {len(failed) - 1} more run{'s' if len(failed) > 2 else ''}: --full"


def _not_run(session: Session, width: int) -> list[str]:
    """Name all arms with their reasons, and the fixes of one or two; names alone where the reasons are long."""
    entries = summary.not_run(session)
    if not entries:
        return []
    text = wrap(f"Not run: {'; '.join(f'{entry.arm} ({entry.reason})' for entry in entries)}.", width)
    if len(entries) <= 2:
        fixes = [_cut(f"  fix: {entry.fix}", width) for entry in entries]
        return [wrap(text, width, most=_REASONS), *fixes]
    if text.count("\n") < _REASONS:
        return [text]
    return [wrap(f"Not run: {', '.join(entry.arm for entry in entries)} (reasons and fixes: --full).", width, most=3)]


def _more(session: Session, analysis: Analysis, width: int) -> list[str]:
    views = [f"--{flag.name}" for flag in flags() if flag.suits is None or flag.suits(session, analysis)]
    more, report = f"More: kit show {session.id} {' | '.join(views)}", f"Report: kit report {session.id}"
    line = f"{more}     {report}"
    return [line] if len(line) <= width else [_cut(more, width), _cut(report, width)]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
