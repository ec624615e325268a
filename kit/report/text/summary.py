"""How a session went: its rounds and how long they took, why it ended, what was not run, which runs failed."""

from __future__ import annotations

import re

from kit.analysis.session.analyse import Analysis, whole_real
from kit.analysis.session.timing import count_rounds, elapsed
from kit.core.listing import in_words
from kit.core.quantity import shown_duration
from kit.model.fact import CPU, IMAGE, RUN_ORDER
from kit.model.plan import MOST_ROUNDS
from kit.model.sample import INTERLEAVED, SEQUENTIAL, TRACED, Sample
from kit.model.session import DONE, RUNNING, NotRun, Session
from kit.report.format import units

#: How a session ended.
DECIDED, UNDECIDED, SPENT, REACHED, AS_ASKED = (
    "decided", "undecided", "budget spent", "precision reached", "as asked",
)  # fmt: skip


def head(session: Session) -> str:
    """Return what was measured, when, and how often."""
    state = "" if session.status == DONE else f", {session.status}"
    return f"{session.title}: session {session.id}, {units.moment(session.created)} UTC, {rounds(session)}{state}"


def summary(session: Session, analysis: Analysis) -> str:
    """Return ``kernel:short, 2 cores, ext4 and btrfs: 4 interleaved rounds in 8 min 20 s; decided``. Of a command also
    the image that nobody chose."""
    cores = re.search(r"\d+ cores?", CPU.text(session.facts))
    cpus = f"CPUs {session.request.cpuset}" if session.request.cpuset else cores[0] if cores else ""
    where = [
        session.title,
        *_default_image(session),
        *([cpus] if cpus else []),
        *([both] if (both := _filesystems(session)) else []),
    ]
    seconds = elapsed(session)
    parts = [f"{', '.join(where)}: {rounds(session)}{f' in {shown_duration(seconds)}' if seconds else ''}"]
    return "; ".join([*parts, *([how] if (how := ending(session, analysis)) else [])])


def _default_image(session: Session) -> list[str]:
    """Return ``image kernel`` for a command without --image and --rootfs."""
    request, image = session.request, IMAGE.text(session.facts)
    chosen = request.image or request.rootfs or not request.own_command
    return [] if chosen or not image or image.startswith("none") else [f"image {image.split()[0]}"]


def ending(session: Session, analysis: Analysis) -> str:
    """Return the rule that ended the session, else its status; '' where neither is known."""
    request = session.request
    if session.imported or not analysis.rankings:
        return "" if session.status == DONE else session.status
    if session.status != DONE:
        return "not finished" if session.status == RUNNING else session.status
    if request.precision is not None:
        reaches = [comparison.reach for comparison in whole_real(analysis.comparisons) if not comparison.control]
        if request.budget is None or max(reaches, default=0.0) <= request.precision:
            return REACHED if count_rounds(session) < MOST_ROUNDS else f"{UNDECIDED}, {MOST_ROUNDS} rounds"
        return SPENT
    if request.until_decided:
        if all(ranking.decided for ranking in analysis.rankings):
            return DECIDED
        return f"{UNDECIDED}, {SPENT}" if count_rounds(session) < MOST_ROUNDS else f"{UNDECIDED}, {MOST_ROUNDS} rounds"
    return SPENT if request.budget is not None else AS_ASKED


def rounds(session: Session) -> str:
    """Return ``5 interleaved rounds``: those that were planned, without reruns. Of unpaired runs: ``10 to 30 unpaired
    runs of each, 2 failed``."""
    if session.unpaired:
        return _runs(session)
    count = count_rounds(session)
    order = RUN_ORDER.text(session.facts)
    order_word = f" {order}" if order in (INTERLEAVED, SEQUENTIAL) else ""
    return f"{count}{order_word} round{'s' if count != 1 else ''}"


def _runs(session: Session) -> str:
    counts = [sum(sample.arm == arm and sample.status == "ok" for sample in session.samples) for arm in session.arms]
    least, most = min(counts, default=0), max(counts, default=0)
    number = f"{least}" if least == most else f"{least} to {most}"
    lost = len(session.failed)
    return f"{number} unpaired run{'s' if most != 1 else ''} of each{f', {lost} failed' if lost else ''}"


def _filesystems(session: Session) -> str:
    """Return those of the arms that ran."""
    ran = {sample.arm for sample in session.samples}
    filesystems = dict.fromkeys(
        parsed.filesystem for arm in session.arms if arm in ran and (parsed := session.known_arm(arm))
    )
    return in_words(list(filesystems)) if filesystems else ""


def not_run(session: Session) -> list[NotRun]:
    """Return the arms that were not run; those that share a reason share an entry, their names joined."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for entry in session.not_run:
        reasons.setdefault((entry.reason, entry.fix), []).append(entry.arm)
    return [NotRun(", ".join(arms), reason, fix) for (reason, fix), arms in reasons.items()]


def failed(session: Session) -> list[tuple[str, Sample]]:
    """Return each failed run with its place, traced ones too: ``bare, round 3``."""
    word = "run" if session.unpaired else "round"
    return [(f"{sample.arm}, {_place(sample, word)}", sample) for sample in session.samples if sample.status != "ok"]


def _place(sample: Sample, word: str) -> str:
    if not sample.round:
        return "warm-up"
    return f"traced round {sample.round}" if sample.kind == TRACED else f"{word} {sample.round}"
