"""What a reader must know to read a session's figures rightly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

import numpy as np

from kit.analysis.analyse import Analysis, whole_real
from kit.analysis.columns import Key, Runs
from kit.model.arm import driver_of, known_arm
from kit.model.drivers import registered
from kit.model.fact import CACHES, COMPILER, NO_ELSEWHERE, NO_REPEATS, SLICES, SLICES_WHY, UNCONFIRMED, read_facts
from kit.model.plan import AUTO
from kit.model.sample import WHOLE
from kit.model.session import Session
from kit.report import units

#: The cgroup's figure replaces the tree's where they differ by more than both of these.
_RELATIVE, _ABSOLUTE = 0.02, 0.02
#: Megabytes that a warm run may read before it is worth a note.
_WARM_READS = 10.0
#: The share of what an arm wrote that may have been written while it stood still before that is worth a note.
_FROZEN = 0.05


def notes(session: Session, analysis: Analysis) -> list[str]:
    """What a reader must know to read the table rightly."""
    runs = analysis.runs
    seen = {pair for pair in set(map(attrgetter("arm", "kind"), session.samples)) if pair[1] != "warmup"}
    found = list(analysis.unlike)
    if any(item.ratio is not None and item.low is not None for item in analysis.comparisons):
        found.append(_intervals(analysis))
    if any(leaves_tree(runs, [(arm, point)], phase) for arm, point, phase in _everything(session, runs)):
        found.append(
            "* CPU of the arm's cgroup: processes left the tree that `time` sees, or used CPU it does not count"
        )
    if session.request.guest == "uml":
        found.append(
            "User-Mode Linux books nearly all time of a process as user time: user and sys mean something only together"
        )
    if any(kind == "imported" for _, kind in seen):
        found.append("imported figures: nothing is known of the machine, the image or the order of the runs")
    if any(arm.startswith("host") for arm in session.arms):
        found.append("host: the host's own toolchain, not the image's; a difference may be the compiler's")
        compilers = COMPILER.find(session.facts)
        if len({fact.text for fact in compilers}) > 1:
            found.append("; ".join(f"{fact.key}: {fact.text}" for fact in compilers) + ": they DIFFER")
    found += _filesystems(session)
    found += _loads(session)
    found += driver_notes([arm for arm in session.arms if any(arm == other for other, _ in seen)])
    if copied(session):
        found.append(copied_note(session))
    found += _reads(session, runs)
    found += way_taken(session)
    if SLICES.text(session.facts, WHOLE) != WHOLE:
        found.append("real is the time of an arm's turns; every arm lay on a filesystem of its own")
    found += written_meanwhile(session, runs)
    found += _conduct(session, analysis)
    if _one_round(session):
        found.append("1 run: no interval")
    return found


def _one_round(session: Session) -> bool:
    blocks = (sample.block for sample in session.samples if sample.counts)
    first = next(blocks, None)
    return first is not None and all(block == first for block in blocks)


def way_taken(session: Session) -> Iterator[str]:
    """Whether arms ran by turns, where there is something to be said of it, and why."""
    turn = SLICES.text(session.facts, WHOLE)
    why = SLICES_WHY.text(session.facts)
    if turn != WHOLE and session.request.slices != AUTO:
        yield f"arms ran by turns of {turn}, as asked" + (f"; {why}" if why else "")
    elif why:
        yield why


def written_meanwhile(session: Session, runs: Runs) -> Iterator[str]:
    """Of runs by turns: arms of which much was written while they stood still, at each point."""
    for point in runs.points:
        given = {arm: _frozen_writes(runs, (arm, point)) for arm in session.arms if runs.has((arm, point))}
        much = [
            f"{arm} {units.share(share)} ({amount:.0f} MB)"
            for arm, (amount, share) in given.items()
            if share >= _FROZEN
        ]
        if much:
            yield (
                f"of what these wrote{units.at(point)} so much was written while they stood still, in nobody's time: "
                f"{', '.join(much)}; their flush and whole are too small by it, real too where they waited for the disk"
            )


def _frozen_writes(runs: Runs, key: Key) -> tuple[float, float]:
    """Megabytes that were written of the arm's data while it stood still, a run, and their share of all that was."""
    frozen, written, flushed = (
        float(np.nansum(runs.values(key, runs.phases([key])[-1], name)))
        for name in ("frozen_write_bytes", "write_bytes", "flush_bytes")
    )
    every = written + flushed
    return frozen / 1e6 / len(runs.samples(key)), frozen / every if every > 0 else 0.0


def _conduct(session: Session, analysis: Analysis) -> Iterator[str]:
    """Where a figure is adjusted, left out, or hangs on a few runs."""
    for fact in read_facts(session.facts):
        if fact.kind is NO_ELSEWHERE:
            yield f"CPU elsewhere is left out {fact.text}"
        elif fact.kind is NO_REPEATS:
            yield f"runs of {fact.of} are flagged and not made again: {fact.text}"
    whole = [item for item in whole_real(analysis.comparisons) if not item.control]
    if any(item.adjusted is not None for item in whole):
        yield "° seconds are adjusted as the ratio below them is: by what they would be at the baseline's speed"
    for item in whole:
        if item.outliers and item.untrimmed:
            yield (
                f"{units.against(item)}: {units.percent(item.ratio or 0)} is the typical round's; over all rounds the "
                f"mean is {units.percent(item.untrimmed)}: a few runs make the difference"
            )
    for pair in analysis.unrepeated:
        if pair.differs and pair.found.ratio and pair.without.ratio:
            without = pair.without
            yield (
                f"{units.against(without)} without repeated runs: {units.percent(without.ratio or 0)} "
                f"({units.percent(without.low or 0)} … {units.percent(without.high or 0)})"
            )


def driver_notes(arms: Sequence[str]) -> Iterator[str]:
    """What is to be known of drivers whose root filesystem these arms use, each said once."""
    of: dict[str, list[str]] = {}
    for arm in arms:
        found = known_arm(arm)
        if found and not found.plain_root:
            for note in driver_of(found).notes:
                of.setdefault(note, []).append(arm)
    yield from (f"{', '.join(named)}: {note}" for note, named in of.items())


def copies_all(arm: str) -> bool:
    """True for drivers that copy the whole root filesystem."""
    found = known_arm(arm)
    return found is not None and driver_of(found).copies_all


def copied(session: Session) -> tuple[str, ...]:
    """Arms whose warm figure is not what they cost in use: their files lie in the page cache as just written."""
    if CACHES.text(session.facts) != "warm":
        return ()
    measured = {sample.arm for sample in session.samples if sample.counts}
    return tuple(arm for arm in session.arms if arm in measured and copies_all(arm))


def copied_note(session: Session) -> str:
    return (
        f"{', '.join(copied(session))}: the root filesystem is copied for every container before the clock starts, "
        "and is in the page cache then: its warm figure is not what it costs in use (--cache cold)"
    )


def _reads(session: Session, runs: Runs) -> Iterator[str]:
    """Which arms read from the disk although caches are warm."""
    if CACHES.text(session.facts) != "warm":
        return
    for point in runs.points:
        read = {arm: _megabytes(runs, (arm, point)) for arm in session.arms if runs.has((arm, point))}
        many = [f"{arm} {amount:.0f} MB" for arm, amount in read.items() if amount >= _WARM_READS]
        if many:
            at = f" at {point}" if point else ""
            cold = dict.fromkeys(driver.cold_root for _, driver in registered() if driver.cold_root)
            yield (
                f"read from the disk in a warm run{at}, on average: {', '.join(many)}. What every container has to "
                f"read anew is part of what it costs: {'; '.join(cold)}"
            )


def _megabytes(runs: Runs, key: Key) -> float:
    values = runs.values(key, runs.phases([key])[-1], "read_bytes")
    known = values[np.isfinite(values)]
    return float(known.mean()) / 1e6 if known.size else 0.0


def _loads(session: Session) -> Iterator[str]:
    """The load of the first run of each arm stands for all of them."""
    if not any(map(attrgetter("load"), session.samples)):
        return
    beside = [sample for sample in session.samples if sample.load and sample.counts]
    first = {sample.arm: sample.load for sample in reversed(beside)}
    if first:
        said = "; ".join(f"{arm}: {load}" for arm, load in first.items())
        yield f"background load beside every run, here in the first round: {said}; its I/O is in flush and in bytes"


def _filesystems(session: Session) -> Iterator[str]:
    for fact in UNCONFIRMED.find(session.facts):
        yield f"@{fact.of}: the kernel took the mount options {fact.text} and does not show whether they are in force"
    for arm, baseline in session.baselines:
        one, other = known_arm(arm), known_arm(baseline)
        if session.request.baseline and one and other and one.filesystem != other.filesystem:
            yield f"{arm} and its baseline {baseline} lie on different filesystems: you named the baseline"


def _everything(session: Session, runs: Runs) -> Iterator[tuple[str, str, str]]:
    for point in runs.points:
        for arm in session.arms:
            if runs.has((arm, point)):
                yield from ((arm, point, phase) for phase in runs.phases([(arm, point)]))


def _intervals(analysis: Analysis) -> str:
    family = max(item.family for item in analysis.comparisons)
    text = "intervals in the tables hold one at a time with 95 %"
    if family > 1:
        text += f"; verdicts allow for all {family} comparisons at once (Bonferroni)"
    return text


def leaves_tree(runs: Runs, keys: Sequence[Key], phase: str) -> bool:
    """True where the cgroup counted CPU that the waited-for tree did not: a daemon left it."""
    for key in keys:
        tree = runs.values(key, phase, "user") + runs.values(key, phase, "sys")
        group = runs.values(key, phase, "cgroup_user") + runs.values(key, phase, "cgroup_sys")
        # Not a number where either is not measured, and then not greater either.
        if (np.abs(group - tree) > np.maximum(_ABSOLUTE, _RELATIVE * group)).any():
            return True
    return False
