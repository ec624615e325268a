"""A session in plain sentences: what was found, what was not, what to change, with what confidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kit.analysis.runs.compare import Comparison
from kit.analysis.session import ladder
from kit.analysis.session.analyse import Analysis, whole_real
from kit.analysis.session.ladder import Ladder, LadderStep
from kit.analysis.stats.estimate import MORE, NO_INTERVAL, NOT_SIGNIFICANT
from kit.model.arm import Arm
from kit.model.fact import STOPPED
from kit.model.session import Session
from kit.report.format import units
from kit.report.format.interval import difference_interval, percent_interval, share_interval
from kit.report.format.verdict import assurance, power, verdicts
from kit.report.format.wrap import NARROW, wrap
from kit.report.text.answer import what_decides
from kit.report.text.caveats import notes
from kit.report.text.tasks import largest_part

_WHERE = {
    "layer": "in the writable layer of {driver}",
    "bind": "on a bind mount, with the root filesystem from {driver}",
    "volume": "on a volume, with the root filesystem from {driver}",
    "tmpfs": "on a tmpfs, with the root filesystem from {driver}",
    "build": "as the steps of an image build by {driver}",
    "runtime": "in a container whose root filesystem and tree are plain directories",
    "bare": "without a container on {filesystem}",
    "union": "in a union of plain directories, {driver}",
}
_STEPS = {
    ladder.RUNTIME: "the container itself",
    ladder.READ: "reading the root filesystem through the driver",
    ladder.WRITE: "writing through the driver",
    ladder.FLUSH: "data still to be written when the build ended",
}
_ADVICE = {
    ladder.RUNTIME: "run {arm}+seccomp=unconfined and {arm}+cgroup=none as well: they show which part costs",
    ladder.READ: "the root filesystem's driver is slow, not the build tree: use another driver, or put the toolchain "
    "on a bind mount; moving the build tree changes nothing",
    ladder.WRITE: "put the build tree on a bind mount or a volume: that is what this step costs",
    ladder.FLUSH: "the build ends with data still dirty; what comes after it pays",
}
#: Where rungs are missing, no advice can rest on what the step would be without them.
_JOINED = "to separate them, add the arms of the ladder between (runtime, and bind on the same driver)"


@dataclass(frozen=True)
class Explanation:
    """Sentences: what each arm costs, what to change, how sure all this is, what to mind."""

    answers: tuple[str, ...]
    advice: tuple[str, ...]
    confidence: tuple[str, ...]
    notes: tuple[str, ...]


def explain(session: Session, analysis: Analysis) -> Explanation:
    comparisons = [comparison for comparison in whole_real(analysis.comparisons) if not comparison.control]
    answers = []
    if session.guest:
        answers.append(
            f"It ran in a guest: {session.guest}. Ratios hold for that kernel; no figure describes this machine itself."
        )
    for comparison in comparisons:
        part = largest_part(analysis, comparison.arm, comparison.point)
        sentences = _arm(
            comparison,
            where(session, comparison.arm),
            analysis.ladder(comparison.arm, comparison.point),
            analysis.margin,
        )
        answers.append(" ".join([*sentences, *([f"{part}."] if part else [])]))
    return Explanation(
        tuple(answers),
        tuple(_advice(comparisons, analysis)),
        tuple(_confidence(session, analysis, comparisons)),
        tuple(notes(session, analysis)),
    )


def render_explain(session: Session, analysis: Analysis) -> str:
    """Return paragraphs: each arm, what is not significant, what to change, the confidence; then the plot."""
    explanation = explain(session, analysis)
    parts = [f"{session.title}, session {session.id}", *(wrap(line, NARROW) for line in explanation.answers)]
    parts += [wrap(f"{entry.arm} did not run: {entry.reason}. Fix: {entry.fix}.", NARROW) for entry in session.not_run]
    if explanation.advice:
        parts.append("What to change:\n" + "\n".join(wrap(f"- {line}", NARROW) for line in explanation.advice))
    parts.append("Confidence:\n" + "\n".join(wrap(f"- {line}", NARROW) for line in explanation.confidence))
    parts.append("Notes:\n" + "\n".join(wrap(f"- {note}", NARROW) for note in explanation.notes))
    parts += [verdicts(analysis), assurance(analysis)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _arm(comparison: Comparison, place: str, steps: Ladder | None, margin: float) -> Iterator[str]:
    what = f"Building {place}{units.at(comparison.point)}"
    if comparison.ratio is None:
        yield f"{what}: no ratio to {comparison.baseline} exists, since one of the two times is 0."
        return
    if comparison.verdict == NO_INTERVAL:
        more = "one run; give several runs of each" if comparison.unpaired else "one round; run more rounds"
        yield f"{what} vs {comparison.baseline}: {units.percent(comparison.ratio)} in {more} for an interval."
        return
    change = percent_interval(comparison.together)
    if comparison.verdict_all == NOT_SIGNIFICANT:
        change += " of real time"  # the answer is of durable time
        if comparison.equivalent(margin):
            yield f"{what} is equivalent to {comparison.baseline} within ±{units.asked(margin)}: {change}."
        else:
            why = f"not significant; {power(comparison.detectable)}"
            yield f"{what} vs {comparison.baseline} is inconclusive, {change}: {why}."
            if comparison.verdict != NOT_SIGNIFICANT:
                family = comparison.family
                yield f"It is significant individually, but after correcting for {family} comparisons it is not."
    else:
        word = "cost" if comparison.verdict_all == MORE else "saved"
        yield f"{what} {word} {_abs(comparison.ratio)} of the real time of {comparison.baseline}: {change}."
    if steps:
        yield _split(steps)


def _split(steps: Ladder) -> str:
    """Return each significant step with its interval, then the names of the others."""
    whole = steps.whole.share
    clear = [step for step in steps.steps if step.share and step.share.leaves_out(0.0)]
    parts = [f"{_share(step)} {_step_words(step)}" for step in clear]
    unclear = [_step_words(step) for step in steps.steps if step not in clear]
    total = f" {share_interval(whole)}" if whole else ""
    text = f"With the data on the device, the total is{total}"
    text += f": {', '.join(parts)}" if parts else ""
    if unclear:
        text += f"; not significant: {', '.join(unclear)}"
    return f"{text}."


def _share(step: LadderStep) -> str:
    share = step.share
    return share_interval(share) if share else units.seconds(step.seconds.estimate)


def _step_words(step: LadderStep) -> str:
    return " and ".join(_STEPS.get(part, part) for part in step.name.split(" and "))


def where(session: Session, arm: str) -> str:
    """The placement of an arm in words."""
    parsed = session.known_arm(arm)
    if parsed is None or parsed.placement not in _WHERE:
        return f"as {arm}"
    options = "".join(f" +{key}={value}" if value else f" +{key}" for key, value in parsed.options)
    return _WHERE[parsed.placement].format(driver=_driver(parsed), filesystem=parsed.filesystem) + options


def _driver(arm: Arm) -> str:
    driver = f"{arm.outer}/{arm.engine}/{arm.driver}" if arm.outer else arm.driver
    return f"{driver} on {arm.filesystem}"


def _abs(ratio: float | None) -> str:
    if ratio is None:
        return units.NOTHING
    return f"{abs(ratio - 1) * 100:.1f} %" if ratio < 100 else units.percent(ratio)


def _advice(comparisons: Sequence[Comparison], analysis: Analysis) -> Iterator[str]:
    """Return, for each arm that costs something, what its most expensive step calls for."""
    for comparison in comparisons:
        steps = analysis.ladder(comparison.arm, comparison.point)
        if comparison.verdict_all != MORE or not steps:
            continue
        if len(steps.largest) == 1:
            step = steps.largest[0]
            joined = ladder.READ in step.name and step.name != ladder.READ
            hint = _JOINED if joined else _ADVICE.get(step.name.partition(":")[0], "")
            yield f"{comparison.arm}: most of it is {_step_words(step)}; {hint.format(arm=steps.steps[0].upper)}"
        elif steps.largest:
            words = [_step_words(step) for step in steps.largest]
            yield (
                f"{comparison.arm}: most of it is {', '.join(words[:-1])} and {words[-1]} together; "
                "more rounds would separate them"
            )
    for comparison in analysis.outside_cpu:
        yield (
            f"{comparison.arm}{units.at(comparison.point)} uses {difference_interval(comparison, together=True)} of "
            f"outside CPU per run (daemons, kernel threads) more than {comparison.baseline}: `time` does not show it, "
            "other jobs on the machine pay for it"
        )


def _confidence(session: Session, analysis: Analysis, comparisons: Sequence[Comparison]) -> Iterator[str]:
    family = max((comparison.family for comparison in comparisons), default=1)
    intervals = "intervals are 95 %"
    if family > 1:
        intervals = (
            f"intervals of what arms cost are simultaneous 95 % intervals of {family} comparisons; those of the parts "
            "of a cost are individual"
        )
    least = analysis.least_rounds
    if session.unpaired:
        runs = f"{least} run{'s' if least != 1 else ''}"
        yield f"{intervals}; each figure rests on at least {runs} of either arm, unpaired: two independent samples"
    else:
        rounds = f"{least} round{'s' if least != 1 else ''}"
        yield f"{intervals}; each figure rests on at least {rounds}, compared within rounds"
    widest = max(
        (comparison for comparison in comparisons if comparison.reach < math.inf),
        key=lambda comparison: comparison.reach,
        default=None,
    )
    if widest is not None:
        yield f"the widest individual interval, of {widest.arm}, has a half-width of ±{units.share(widest.reach, 1)}"
    if lines := list(what_decides(session, [ranking for ranking in analysis.rankings if ranking.undecided])):
        yield " ".join(lines)
    stopped = STOPPED.text(session.facts)
    if stopped:
        yield f"the session ended: {stopped}"
