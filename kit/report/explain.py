"""A session in plain sentences: what was found, what was not, what to change, how sure it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kit.analysis import ladder
from kit.analysis.analyse import Analysis, whole_real
from kit.analysis.compare import MORE, NO_INTERVAL, NOT_DETECTED, Comparison
from kit.analysis.ladder import Ladder, LadderStep
from kit.model.arm import Arm, known_arm
from kit.model.fact import STOPPED
from kit.model.session import Session
from kit.report import units
from kit.report.ladder import whole_of
from kit.report.notes import notes
from kit.report.tasks import largest_part
from kit.report.verdict import assurance, verdicts
from kit.report.wrap import NARROW, wrap

#: A precision that a decision can rest on; the number of rounds that reach it is named.
_WANTED = 0.02

_WHERE = {
    "layer": "in the writable layer of {driver}",
    "bind": "on a bind mount, with the root filesystem from {driver}",
    "volume": "on a volume, with the root filesystem from {driver}",
    "tmpfs": "on a tmpfs, with the root filesystem from {driver}",
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
    ladder.RUNTIME: "run {arm}+seccomp=unconfined and {arm}+cgroup=none as well: they show which part of it",
    ladder.READ: "the root filesystem's driver is what is slow, not the build tree: another driver or the toolchain on "
    "a bind mount would mend it; moving the build tree would not",
    ladder.WRITE: "put the build tree on a bind mount or a volume: that is what this step costs",
    ladder.FLUSH: "the build ends with data still dirty; what comes after it pays",
}
#: Where rungs are missing, no advice can rest on what the step would be without them.
_JOINED = "which of them, the arms of the ladder between would tell (runtime, and bind on the same driver): add them"


@dataclass(frozen=True)
class Explanation:
    """Sentences: what each arm costs, what to change, how sure all this is, what to mind."""

    answers: tuple[str, ...]
    advice: tuple[str, ...]
    sureness: tuple[str, ...]
    notes: tuple[str, ...]


def explain(session: Session, analysis: Analysis) -> Explanation:
    found = [item for item in whole_real(analysis.comparisons) if not item.control]
    answers = []
    if session.guest:
        answers.append(
            f"It ran in a guest: {session.guest}. Ratios are within that kernel; no figure is this machine's own."
        )
    for item in found:
        part = largest_part(analysis, item.arm, item.point)
        answers.append(" ".join([*_arm(item, _ladder(analysis, item)), *([f"{part}."] if part else [])]))
    return Explanation(
        tuple(answers),
        tuple(_advice(found, analysis)),
        tuple(_sureness(session, found)),
        tuple(notes(session, analysis)),
    )


def render_explain(session: Session, analysis: Analysis) -> str:
    """Paragraphs: each arm, what was not detected, what to change, how sure all this is; then the plot."""
    said = explain(session, analysis)
    parts = [f"{session.title}, session {session.id}", *(wrap(line, NARROW) for line in said.answers)]
    parts += [
        wrap(f"{item.arm} did not run: {item.reason}. To mend it: {item.fix}.", NARROW) for item in session.not_run
    ]
    if said.advice:
        parts.append("What to change:\n" + "\n".join(wrap(f"- {line}", NARROW) for line in said.advice))
    parts.append("How sure this is:\n" + "\n".join(wrap(f"- {line}", NARROW) for line in said.sureness))
    parts.append("Mind:\n" + "\n".join(wrap(f"- {note}", NARROW) for note in said.notes))
    parts += [verdicts(analysis), assurance(analysis)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _ladder(analysis: Analysis, item: Comparison) -> Ladder | None:
    mine = [step for step in analysis.ladders if (step.arm, step.point) == (item.arm, item.point)]
    return whole_of(mine, "real")


def _arm(item: Comparison, steps: Ladder | None) -> Iterator[str]:
    what = f"Building {where(item.arm)}{units.at(item.point)}"
    if item.ratio is None:
        yield f"{what}: no ratio to {item.baseline} could be taken."
        return
    if item.verdict == NO_INTERVAL:
        yield f"{what} took {units.percent(item.ratio)} against {item.baseline}, in one run: that says nothing yet."
        return
    if item.verdict == NOT_DETECTED:
        floor = f"; {_abs(item.detectable)} or more would have been seen" if item.detectable else ""
        most = f" it costs {units.percent(item.high)} at most" if item.high else ""
        yield f"{what}: no difference to {item.baseline} was detected;{most} ({_range(item)}){floor}."
    else:
        word = "cost" if item.verdict == MORE else "saved"
        yield f"{what} {word} {_abs(item.ratio)} ({_range(item)}) of the real time of {item.baseline}."
        if item.verdict_all == NOT_DETECTED:
            yield f"Taken together with the other arms ({item.family} comparisons), that may be chance."
    if steps:
        yield _split(steps)


def _split(steps: Ladder) -> str:
    """``Of this: …``, each step with its interval; what is not told from zero says so."""
    whole = steps.whole.share
    clear = [step for step in steps.steps if step.share and step.share.leaves_out(0.0)]
    parts = [f"{_share(step)} {_step_words(step)}" for step in clear]
    unclear = [_step_words(step) for step in steps.steps if step not in clear]
    total = f" {_interval(whole.estimate, whole.low, whole.high)}" if whole else ""
    text = f"With the data on the device, the whole is{total}"
    text += f": {', '.join(parts)}" if parts else ""
    if unclear:
        text += f"; not told from zero: {', '.join(unclear)}"
    return f"{text}."


def _share(step: LadderStep) -> str:
    share = step.share
    return _interval(share.estimate, share.low, share.high) if share else units.seconds(step.seconds.estimate)


def _interval(estimate: float, low: float | None, high: float | None) -> str:
    text = f"{estimate * 100:+z.1f} %"
    return text if low is None or high is None else f"{text} ({low * 100:+z.1f} to {high * 100:+z.1f})"


def _step_words(step: LadderStep) -> str:
    return " and ".join(_STEPS.get(part, part) for part in step.name.split(" and "))


def where(arm: str) -> str:
    """The placement of an arm in words."""
    found = known_arm(arm)
    if found is None:
        return f"as {arm}"
    return _WHERE.get(found.placement, "as {arm}").format(driver=_driver(found), arm=arm, filesystem=found.filesystem)


def _driver(arm: Arm) -> str:
    options = "".join(f" +{key}={value}" for key, value in arm.options)
    return f"{arm.driver} on {arm.filesystem}{options}"


def _abs(ratio: float | None) -> str:
    if ratio is None:
        return units.NOTHING
    return f"{abs(ratio - 1) * 100:.1f} %" if ratio < 100 else units.percent(ratio)


def _range(item: Comparison) -> str:
    return f"{units.percent(item.low or 0)} to {units.percent(item.high or 0)}"


def _advice(found: Sequence[Comparison], analysis: Analysis) -> Iterator[str]:
    """For each arm that costs something, what its dearest step calls for."""
    for item in found:
        steps = _ladder(analysis, item)
        if item.verdict != MORE or not steps:
            continue
        if len(steps.dearest) == 1:
            step = steps.dearest[0]
            joined = ladder.READ in step.name and step.name != ladder.READ
            hint = _JOINED if joined else _ADVICE.get(step.name.partition(":")[0], "")
            yield f"{item.arm}: most of it is {_step_words(step)}; {hint.format(arm=steps.steps[0].upper)}"
        elif steps.dearest:
            words = [_step_words(step) for step in steps.dearest]
            yield (
                f"{item.arm}: most of it is {', '.join(words[:-1])} and {words[-1]} together; "
                "more rounds would tell which of them"
            )
    for item in _elsewhere(analysis):
        interval = f"({units.seconds(item.difference_low)} to {units.seconds(item.difference_high)})"
        yield (
            f"{item.arm}{units.at(item.point)} spends {units.seconds(item.difference)} {interval} of CPU a run outside "
            f"the build (daemons, kernel threads) more than {item.baseline}: `time` does not show it, other jobs on "
            "the machine pay for it"
        )


def _elsewhere(analysis: Analysis) -> list[Comparison]:
    """Where CPU elsewhere is at least a twentieth of the build's time."""
    reals = {(item.arm, item.point, item.phase): item for item in whole_real(analysis.comparisons)}
    cpu = {(item.arm, item.point, item.phase): item for item in analysis.comparisons if item.metric == "elsewhere"}
    means = {key: analysis.runs.values((key[0], key[1]), key[2], "real").mean() for key in reals}
    return [item for key, item in cpu.items() if key in reals and (item.difference_low or 0) > 0.05 * means[key]]


def _sureness(session: Session, found: Sequence[Comparison]) -> Iterator[str]:
    n = min((item.n for item in found), default=0)
    yield f"every interval holds with 95 %; {n} rounds at least stand behind each figure, compared within rounds"
    widest = max((item for item in found if item.reach < math.inf), key=lambda item: item.reach, default=None)
    need = widest.rounds_for(_WANTED) if widest else None
    if widest is not None and widest.reach > _WANTED and need:
        yield (
            f"the widest interval, of {widest.arm}, reaches ±{units.share(widest.reach, 1)}; about {need} rounds would "
            f"bring it to ±{units.share(_WANTED)} (--precision {_WANTED:.0%})"
        )
    stopped = STOPPED.text(session.facts)
    if stopped:
        yield f"the session ended because: {stopped}"
