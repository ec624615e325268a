"""A bisection: the answer, what to do next, and a table of its steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from kit.analysis.bisection.bisection import (
    FOUND,
    INCONCLUSIVE,
    NO_SLOWDOWN,
    SEVERAL,
    Bisection,
    BisectionStep,
    Candidate,
)
from kit.analysis.session.slowdown import NOT_SLOWER
from kit.model.plan import MOST_ROUNDS
from kit.report.format import units
from kit.report.format.interval import percent_interval
from kit.report.format.sanitize import shown
from kit.report.format.table import render_table
from kit.report.format.wrap import NARROW, wrap

#: Most suspects that are listed, and most characters of a subject in the table.
_LISTED, _SUBJECT = 10, 40


def render_bisection(given: Bisection) -> str:
    """Return the answer first, then each step."""
    found = shown(given)
    answer = "\n".join(wrap(line, NARROW) for line in _answer(found))
    return f"{answer}\n\n{_table(found)}\n"


def render_bisection_json(given: Bisection) -> str:
    """Return the answer, all candidates and all steps."""
    found = shown(given)
    document = {
        "schema": 1,
        **asdict(found),
        "first": asdict(found.first) if found.first else None,
        "metric": found.metric,
        "error": found.error or None,
        "rounds": found.rounds,
        "seconds": found.seconds,
        "earlier": found.earlier,
    }
    return json.dumps(document, indent=1) + "\n"


def _answer(found: Bisection) -> Iterator[str]:
    noun = _noun(found)
    if found.result == FOUND:
        first = found.suspects[0]
        yield f"first slow {noun}: {_described(first)}"
        cost = f"{_cost(found, first)} of {found.metric} time"
        yield f"It costs {cost} on {found.arm}, compared with {found.good.name}. {_before(found)}"
    elif found.result == NO_SLOWDOWN:
        last = found.candidates[-1]
        yield f"no slowdown: {last.name} is less than {_threshold(found)} slower than {found.good.name} on {found.arm}"
        yield f"It costs {_cost(found, last)} of {found.metric} time."
    elif found.result == SEVERAL:
        yield f"first slow {noun}: one of {len(found.suspects)}, since those between can't be measured"
        yield from _suspects(found)
    elif not found.suspects:
        bad = found.candidates[-1].name
        yield f"inconclusive: whether {bad} is slower than {found.good.name} stayed undecided{_reason(found)}"
    else:
        yield f"inconclusive: the first slow {noun} is one of {len(found.suspects)}{_why(found)}"
        yield from _suspects(found)
    if said := " ".join(_effort(found)):
        yield said
    yield f"Next: {_next(found)}"


def _effort(found: Bisection) -> Iterator[str]:
    """Yield how sure the answer is, and what this start measured for it."""
    if found.error:
        yield f"Probability of a wrong answer: at most {100 * found.error:.2g} %."
    measured = len(found.steps) - found.earlier
    if found.rounds or found.seconds:
        yield f"{_number(found.rounds, 'round')} in {_number(measured, 'step')} took {units.duration(found.seconds)}."
    if found.earlier:
        yield f"{_number(found.earlier, 'step')} {'is' if found.earlier == 1 else 'are'} from earlier."


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _noun(found: Bisection) -> str:
    return "commit" if found.good.created is not None else "version"


def _described(item: Candidate) -> str:
    if item.created is None:
        return item.name
    return f"{item.id} {item.subject} ({item.author}, {_date(item)})"


def _date(item: Candidate) -> str:
    return units.moment(item.created, "%Y-%m-%d") if item.created is not None else ""


def _threshold(found: Bisection) -> str:
    return units.asked(found.threshold)


def _cost(found: Bisection, item: Candidate) -> str:
    step = found.step(item)
    return _interval(step) if step else ""


def _interval(step: BisectionStep) -> str:
    return percent_interval(step.slowdown.ratio, step.slowdown.low, step.slowdown.high)


def _before(found: Bisection) -> str:
    before = found.before
    if before == found.good:
        return f"It follows {before.name} directly."
    return f"The {_noun(found)} before, {before.name}, is less than {_threshold(found)} slower."


def _why(found: Bisection) -> str:
    return f": {found.undecided.candidate.name} stayed undecided{_reason(found)}" if found.undecided else ""


def _reason(found: Bisection) -> str:
    return f", {found.undecided.reason}" if found.undecided and found.undecided.reason else ""


def _suspects(found: Bisection) -> Iterator[str]:
    for item in found.suspects[:_LISTED]:
        yield f"  {item.name} {_date(item)} {item.subject}".rstrip()
    if len(found.suspects) > _LISTED:
        yield f"  … and {len(found.suspects) - _LISTED} more, to {found.suspects[-1].name}"


def _next(found: Bisection) -> str:
    if found.result == FOUND:
        first = found.suspects[0]
        if first.merge:
            return f"it is a merge; search its branch with --bad {first.name}^2"
        return f"git show {first.name}" if first.created is not None else "read the release notes of that version"
    if found.result == NO_SLOWDOWN:
        return "check --good, --bad and --arm, or use a lower --threshold"
    if found.undecided and found.undecided.slowdown.rounds >= MOST_ROUNDS:
        return "use a larger --threshold, or a quieter machine and --restart"
    if found.result == INCONCLUSIVE:
        return "run the same command again with a longer --budget, without --restart; its steps are kept"
    return "fix the build of a skipped one, or read the changes of all"


def _table(found: Bisection) -> str:
    rows = [_row(found, step) for step in found.steps]
    figures = (f"slowdown{f' ({found.metric})' if found.metric else ''}, 95 %", "rounds", "time", "verdict")
    if found.good.created is None:
        rows = [[row[0], *row[3:]] for row in rows]
        return render_table(rows, ("version", *figures), "simple")
    return render_table(rows, ("commit", "date", "subject", *figures), "simple")


def _row(found: Bisection, step: BisectionStep) -> list[str]:
    item = step.candidate
    verdict = f"less than {_threshold(found)} slower" if step.verdict == NOT_SLOWER else step.verdict
    reason = f": {step.reason[:_SUBJECT]}" if step.reason else ""
    return [
        item.name,
        _date(item),
        item.subject[:_SUBJECT],
        _interval(step) if step.slowdown.ratio else units.NOTHING,
        str(step.slowdown.rounds),
        "earlier" if step.earlier else units.duration(step.seconds),
        f"{verdict}{reason}",
    ]
