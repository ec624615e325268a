"""The first screen: which arm to take, what each costs, why, what was not run, and where the rest is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tabulate import tabulate

from kit.analysis.analyse import Analysis
from kit.analysis.ladder import Ladder
from kit.analysis.ranking import Ranking
from kit.analysis.split_session import machines_of
from kit.analysis.stats import Interval
from kit.model.fact import NO_TRACING, TOGETHER
from kit.model.session import Session
from kit.report import course, units
from kit.report.calls import largest_group
from kit.report.ladder import whole_of
from kit.report.notes import copied, copied_note, way_taken, written_meanwhile
from kit.report.ranking import caption, change, headline, sentences, table
from kit.report.tasks import largest_part
from kit.report.wrap import NARROW, screen, wrap

#: What the first screen takes at most.
COLUMNS, LINES = NARROW, 30
ROWS = 10
_LOG = "  full log: "


def render_answer(session: Session, analysis: Analysis) -> str:
    """At most LINES lines and COLUMNS columns, or the terminal's, if less."""
    return answer(session, analysis, screen())


def answer(session: Session, analysis: Analysis, width: int = COLUMNS) -> str:
    parts = [_head(session, analysis, width), *_tables(session, analysis, width)]
    below = [wrap(line, width) for line in (*_why(analysis), *_mind(session, analysis))]
    last = "\n".join((*_failures(session), *_not_run(session))).splitlines()
    below += [line if line.startswith(_LOG) else _cut(line, width) for line in last]  # a path that is cut is none
    traced = ", --calls" if analysis.calls else ""
    traced += ", --profile" if any(phase.profiles for sample in session.samples for phase in sample.phases) else ""
    below.append(_cut(f"more: kit show {session.id} --full{traced} or --explain; kit report {session.id}", width))
    said = list(sentences(analysis.rankings[0])) if len(analysis.rankings) == 1 else []
    left = LINES - sum(part.count("\n") + 2 for part in parts) - sum(line.count("\n") + 1 for line in below) - 1
    parts += ["\n".join(_fit([wrap(line, width) for line in said], left)), "\n".join(below)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _fit(lines: Sequence[str], left: int) -> list[str]:
    """As many as ``left`` lines take; the last one says how many are not shown."""
    shown: list[str] = []
    for line in lines:
        left -= line.count("\n") + 1
        if left < (len(shown) + 1 < len(lines)):
            return [*shown, f"{len(lines) - len(shown)} more sentences: --explain"]
        shown.append(line)
    return shown


def _head(session: Session, analysis: Analysis, width: int) -> str:
    lines = [wrap(course.head(session), width)]  # whole: it ends with whether the session did
    if session.guest:
        lines.append(wrap(f"IN A GUEST: {session.guest}", width))  # and this with what its figures are worth
    if len(analysis.rankings) == 1:
        lines.append(wrap(headline(analysis.rankings[0], copied(session)), width, most=4))
    return "\n".join(lines)


def _tables(session: Session, analysis: Analysis, width: int) -> Iterator[str]:
    rankings = analysis.rankings
    if not rankings:
        yield _measured(session, analysis)
    elif len(rankings) == 1:
        yield f"{_cut(caption(rankings[0]), width)}\n{table(rankings[0], analysis.comparisons, width, most=ROWS)}"
    else:
        yield _sweep(rankings, width)


def _measured(session: Session, analysis: Analysis) -> str:
    """Where no two arms can be compared: what ran, and how long it took."""
    runs = analysis.runs
    keys = [(arm, point) for point in runs.points for arm in session.arms if runs.has((arm, point))]
    rows = [(f"{arm}{units.at(point)}", *_mean(analysis, arm, point)) for arm, point in keys]
    if not rows:
        return "nothing was measured"
    return tabulate(rows, ["arm", "real", "runs"], tablefmt="simple", disable_numparse=True)


def _mean(analysis: Analysis, arm: str, point: str) -> tuple[str, str]:
    runs = analysis.runs
    values = runs.values((arm, point), runs.phases([(arm, point)])[-1], "real")
    known = values[values >= 0]
    return units.seconds(float(known.mean()) if known.size else None), str(known.size)


def _sweep(rankings: Sequence[Ranking], width: int) -> str:
    """A column for each point: what each arm costs against the reference; the first and the last where not all fit."""
    arms = list(dict.fromkeys(row.arm for ranking in rankings for row in ranking.rows))
    shown = list(rankings)
    while True:
        rows = [[arm, *(_at(arm, ranking) for ranking in shown)] for arm in arms]
        headers = ["", *(ranking.point for ranking in shown)]
        made = tabulate(rows, headers, tablefmt="simple", disable_numparse=True)
        if len(shown) <= 2 or max(map(len, made.splitlines())) <= width:
            break
        del shown[len(shown) // 2]
    left = len(rankings) - len(shown)
    what = caption(rankings[0]).replace(units.at(rankings[0].point), "", 1)
    lines = [wrap(f"{what}; against {rankings[0].reference}", width), made]
    return "\n".join([*lines, f"{left} points between are left out: --full"] if left else lines)


def _at(arm: str, ranking: Ranking) -> str:
    row = next((row for row in ranking.rows if row.arm == arm), None)
    if row is None:
        return units.NOTHING
    if row.against is None:
        return units.seconds(row.typical)
    return change(row.against.ratio, row.against.low_all, row.against.high_all)


def _why(analysis: Analysis) -> Iterator[str]:
    """Where the cost of the reference comes from, else that of the first arm that has a ladder; and in which tasks."""
    found = [item for item in analysis.ladders if item.cost == "real" and item.n > 1]
    arms = list(dict.fromkeys((item.arm, item.point) for item in found))
    wanted = [key for key in arms if any(key == (item.reference, item.point) for item in analysis.rankings)]
    for arm, point in (wanted or arms)[:1]:
        steps = whole_of([item for item in found if (item.arm, item.point) == (arm, point)], "real")
        if steps:
            yield _split(steps)
    costly = {(item.comparison.arm, item.comparison.point): item for item in analysis.tasks if item.dearest}
    asked = [key for key in costly if any(key == (item.reference, item.point) for item in analysis.rankings)]
    for arm, point in (asked or list(costly))[:1]:
        yield largest_part(analysis, arm, point)
    told = {(item.arm, item.point): item for item in analysis.calls}  # the whole run comes last
    asked = [key for key in told if any(key == (item.reference, item.point) for item in analysis.rankings)]
    for key in (asked or list(told))[:1]:
        yield largest_group(told[key])


def _split(steps: Ladder) -> str:
    parts = ", ".join(f"{step.name} {_half(step.share)}" for step in steps.steps)
    return f"{steps.arm}{units.at(steps.point)} over {steps.baseline}: {parts} (each 95 %)"


def _half(share: Interval | None) -> str:
    """``+3.4 ± 3.0 %``: an interval of a mean reaches as far either way."""
    if share is None or share.high is None:
        return units.NOTHING
    return f"{share.estimate * 100:+z.1f} ± {(share.high - share.estimate) * 100:.1f} %"


def _mind(session: Session, analysis: Analysis) -> Iterator[str]:
    """What changes how the table is to be read."""
    if copied(session):
        yield copied_note(session)
    for ranking in [item for item in analysis.rankings if item.unranked][:1]:
        yield (
            f"not ranked{units.at(ranking.point)}: {', '.join(ranking.unranked)}: no ratio to {ranking.reference}, for "
            "want of a round of both that counts, or for figures of 0"
        )
    for floor in analysis.floors[:1]:
        yield f"noise: two identical copies of {floor.baseline} differ by {change(floor.ratio, floor.low, floor.high)}"
    for item in analysis.drifts:
        if item.found and item.what != "machine":
            yield f"the ratio of {item.what} drifted: {units.percent(item.per_block)} a round ({units.chance(item.p)})"
    yield from analysis.unlike[:1]
    yield from way_taken(session)
    yield from [*written_meanwhile(session, analysis.runs)][:1]
    if together := TOGETHER.text(session.facts):
        yield together
    if shared := machines_of(session):
        yield (
            f"its rounds ran on {len(shared)} machines, and all this is of these alone; of machines like them: "
            f"kit fleet show {session.id}"
        )
    if lacking := NO_TRACING.text(session.facts):
        yield f"not traced: {lacking}"


def _failures(session: Session) -> Iterator[str]:
    """The first with its last words and its log, the number of the others."""
    found = course.failed(session)
    for where, sample in found[:1]:
        yield f"failed: {where}: {sample.error or 'no reason known'}"
        yield f"{_LOG}{sample.log}"
    if len(found) > 1:
        yield f"failed: {len(found) - 1} more run{'s' if len(found) > 2 else ''}: --full"


def _not_run(session: Session) -> Iterator[str]:
    """A line each with its fix; from the fourth reason on names alone."""
    found = course.not_run(session)
    if len(found) <= 2:
        for item in found:
            yield f"not run: {item.arm}: {item.reason}"
            yield f"  fix: {item.fix}"
    elif found:
        yield f"not run: {', '.join(item.arm for item in found)}: --full says why, and what would mend it"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
