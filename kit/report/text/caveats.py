"""Caveats that a reader needs to interpret a session's figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from kit.analysis.runs.disturbance import BusyRounds
from kit.analysis.session.analyse import Analysis, whole_real
from kit.analysis.session.ranking import MEMORY, SPACE, WRITTEN
from kit.core.listing import in_words
from kit.extensions import added
from kit.model.arm import driver_of, known_arm
from kit.model.default import OFF
from kit.model.drivers import registered
from kit.model.fact import (
    CACHES,
    COMPILER,
    LEFT_OUT,
    NO_OUTSIDE_CPU,
    NO_RERUN,
    RUN_ORDER,
    RUN_ORDER_WHY,
    SLICE,
    UNCONFIRMED,
    read_facts,
)
from kit.model.plan import DECIDE_FROM
from kit.model.sample import INTERLEAVED, SEQUENTIAL, total
from kit.model.session import Session
from kit.report.format import units
from kit.report.format.interval import difference_interval, percent_interval, times_interval

#: Megabytes that a warm run may read without a note.
_WARM_READS = 10.0
#: Bytes that a run may swap without a note: the kernel moves some idle pages at any time.
_SWAPPED = 1 << 20
#: The share of an arm's data written while it was frozen, and its bytes per run, from which on a note says so. A disk
#: writes fewer in some milliseconds.
_FROZEN, _FROZEN_BYTES = 0.05, 1e6
#: Filesystems on which the engines' copies are clones.
_SHARES_EXTENTS = ("btrfs", "xfs")
#: Machines that a note names at most; rounds in a row that are named by the first and the last; names of rounds.
_NAMED, _SPAN, _SPANS = 3, 4, 8


def notes(session: Session, analysis: Analysis) -> list[str]:
    """Return the caveats that a reader of the table needs."""
    kinds = {pair for pair in set(map(attrgetter("arm", "kind"), session.samples)) if pair[1] != "warmup"}
    lines = [*busy_notes(session, analysis), *strain_notes(session), *analysis.unlike, *unranked_notes(analysis)]
    if any(comparison.ratio is not None and comparison.low is not None for comparison in analysis.comparisons):
        lines.append(_intervals(analysis))
    if any(runs.leaves_tree(phase) for runs in analysis.arms for phase in runs.phases):
        lines.append(
            "* CPU of the arm's cgroup: processes left the tree that `time` sees, or used CPU it does not count"
        )
    if session.request.guest == "uml":
        lines.append("User-Mode Linux books nearly all CPU time as user time: read the sum of user and sys")
    lines += _imported(session)
    if any((parsed := session.known_arm(arm)) and parsed.placement == "host" for arm in session.arms):
        lines.append("host: the host's own toolchain, not the image's; a difference may be the compiler's")
        compilers = COMPILER.find(session.facts)
        if len({fact.text for fact in compilers}) > 1:
            lines.append("; ".join(f"{fact.key}: {fact.text}" for fact in compilers) + ": they DIFFER")
    lines += _filesystems(session)
    lines += _loads(session)
    lines += equivalence_notes(analysis)
    lines += nosync_notes(session)
    lines += left_out_notes(session)
    lines += footprint_notes(analysis)
    lines += outside_cpu_notes(analysis)
    lines += extra_notes(session)
    ran = [arm for arm in session.arms if any(arm == other for other, _ in kinds)]
    lines += driver_notes([arm for arm in ran if session.known_arm(arm)])
    lines += copied_notes(session)
    lines += _reads(session, analysis)
    lines += way_taken(session)
    if RUN_ORDER.text(session.facts) == INTERLEAVED:
        length = f" of {text}" if (text := SLICE.text(session.facts)) else ""
        lines.append(f"real is the sum of an arm's own time slices{length}; each arm has a filesystem of its own")
    lines += written_meanwhile(analysis)
    lines += _conduct(session, analysis)
    if _one_round(session):
        lines.append("one run has no interval" if session.unpaired else "one round has no interval")
    return lines


def _imported(session: Session) -> Iterator[str]:
    if session.labelled:
        yield "imported figures: machine, image and run order are unknown"
    if session.unpaired:
        yield "unpaired runs: all valid runs of each label are compared as independent samples (Welch)"


def busy_notes(session: Session, analysis: Analysis) -> Iterator[str]:
    """Return which rounds other programs disturbed, and how much CPU they used, in one line for each of the first
    machines."""
    machines = dict.fromkeys(busy.machine for busy in analysis.busy)
    for name in list(machines)[:_NAMED]:
        of_machine = [busy for busy in analysis.busy if busy.machine == name]
        when = {True: "before", False: "in"}
        used = [f"{_used(busy)} {when[busy.before]} {_rounds(busy.rounds)}" for busy in of_machine if busy.used]
        where = f"machine {name}" if name else "the machine"
        if used:
            yield f"{where[0].upper()}{where[1:]} was busy: other programs used {' and '.join(used)}."
        for busy in of_machine:
            if not busy.used:
                why = NO_OUTSIDE_CPU.text(session.facts)
                yield f"Outside CPU is unknown in {_rounds(busy.rounds)}{f' of {where}' if name else ''}: {why}."
    if len(machines) > _NAMED:
        yield f"{len(machines) - _NAMED} more machines were busy."


def _without_outside(session: Session, analysis: Analysis, why: str) -> Iterator[str]:
    """Return in which rounds outside CPU is left out, and why; nothing if ``busy_notes`` has said so, or if the machine
    was busy before a warm-up alone."""
    runs = [sample for sample in session.samples if sample.counts and sample.status == "ok"]
    rounds = sorted({sample.round for sample in runs if total(sample.phases).outside is None})
    if rounds and all(busy.used for busy in analysis.busy):
        yield f"outside CPU is left out in {_rounds(rounds)}: {why}"


def strain_notes(session: Session) -> Iterator[str]:
    """Return in which rounds the machine swapped, and in which its CPU was throttled."""
    measured = [sample for sample in session.samples if sample.counts]
    for name, least, sentence in (
        ("swapped", _SWAPPED, "The machine swapped"),
        ("throttled", 0.0, "The CPU was throttled for its temperature"),
    ):
        rounds = {
            sample.round for sample in measured if sum(phase.metric(name) or 0.0 for phase in sample.phases) > least
        }
        if rounds:
            yield f"{sentence} in {_rounds(sorted(rounds))}."


def _used(busy: BusyRounds) -> str:
    """Return ``0.38 of 2 CPUs``."""
    return f"{busy.used:.2f} of {busy.cpus} CPUs" if busy.cpus else f"{busy.used:.2f} CPUs"


def _rounds(numbers: Sequence[int]) -> str:
    """Return ``round 2``, ``rounds 1, 3 and 4``, ``rounds 2 to 9 and 12``; of very many their number."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    words = [str(n) for span in spans for n in (span if len(span) < _SPAN else [f"{span[0]} to {span[-1]}"])]
    if len(words) > _SPANS:
        return f"{len(numbers)} rounds"
    return f"round{'s' if len(numbers) > 1 else ''} {in_words(words)}"


def unranked_notes(analysis: Analysis) -> Iterator[str]:
    """Return, for each point, what ran and has no rank."""
    for ranking in analysis.rankings:
        if ranking.unranked:
            why = f"no valid round contains both it and {ranking.reference}, or its figures are 0"
            if ranking.unpaired:
                why = f"no ratio to {ranking.reference} exists, since a time of one of the two is 0"
            yield f"Not ranked{units.at(ranking.point)}: {', '.join(ranking.unranked)}: {why}."


def equivalence_notes(analysis: Analysis) -> Iterator[str]:
    """Return, for each point, why arms are not called equivalent although their intervals lie within the margin."""
    for ranking in analysis.rankings:
        withheld = [pair for pair in ranking.pairs if pair.ratio.withheld(ranking.margin)]
        what = f"Not called equivalent within ±{units.asked(ranking.margin)}{units.at(ranking.point)}"
        visible = max((pair.ratio.visible for pair in withheld), default=0.0)
        if visible > 1 + ranking.margin:
            yield f"{what}: even two identical arms, the control, may differ by {units.percent(visible).lstrip('+')}."
        elif withheld:
            yield f"{what}: {DECIDE_FROM} {'runs' if ranking.unpaired else 'rounds'} are the least for that."


def footprint_notes(analysis: Analysis) -> Iterator[str]:
    """Return, for each point, the arms that take much more of the disk or the memory than the reference."""
    what = {
        SPACE: ("Disk", "uses", "space"),
        WRITTEN: ("Disk", "writes", "bytes"),
        MEMORY: ("Memory", "uses", "memory"),
    }
    for point, head in dict.fromkeys((footprint.point, what[footprint.metric][0]) for footprint in analysis.footprints):
        footprints = [
            footprint
            for footprint in analysis.footprints
            if (footprint.point, what[footprint.metric][0]) == (point, head)
        ]
        entries = []
        for footprint in footprints[:_NAMED]:
            (_, verb, noun), against = what[footprint.metric], footprint.against
            times = times_interval(against.ratio.together)
            entries.append(f"{against.arm} {verb} {times} times the {noun} of {against.other}")
        more = f"; {len(footprints) - _NAMED} more" if len(footprints) > _NAMED else ""
        yield f"{head}{units.at(point)}: {'; '.join(entries)}{more}."


def nosync_notes(session: Session) -> Iterator[str]:
    """Return what the arms that do not wait for the disk risk; nothing without one."""
    arms = [text for text in session.arms if (arm := session.known_arm(text)) and arm.nosync]
    if arms:
        yield f"{in_words(arms)}: a crash of the machine may lose what a program believes to be on the disk."


def left_out_notes(session: Session) -> Iterator[str]:
    """Return what the commits of the sources have in a checkout, and no arm had."""
    for fact in LEFT_OUT.find(session.facts):
        yield f"The sources of {fact.of} lack what Git does not store in the commit: {fact.text}."


def outside_cpu_notes(analysis: Analysis) -> Iterator[str]:
    """Return the arms that use much CPU which `time` does not show."""
    for cpu in analysis.outside_cpu:
        yield (
            f"Outside CPU: {cpu.arm}{units.at(cpu.point)} uses {difference_interval(cpu, together=True)} per run "
            f"more than {cpu.baseline}, which `time` does not show."
        )


def extra_notes(session: Session) -> Iterator[str]:
    """Return the notes of extras."""
    for find_notes in added("notes"):
        yield from find_notes(session)


def _one_round(session: Session) -> bool:
    rounds = (sample.round for sample in session.samples if sample.counts)
    first = next(rounds, None)
    return first is not None and all(round_ == first for round_ in rounds)


def way_taken(session: Session) -> Iterator[str]:
    """Return why the session is sequential; nothing where the user asked for that."""
    why = RUN_ORDER_WHY.text(session.facts)
    if why and RUN_ORDER.text(session.facts) == SEQUENTIAL and session.request.interleave != OFF:
        yield f"Runs are sequential: {why}."


def written_meanwhile(analysis: Analysis) -> Iterator[str]:
    """Return, for each point, the interleaved arms of which much was written while they were frozen."""
    for point in analysis.points:
        writes = {runs.arm: runs.frozen_writes for runs in point.arms}
        much = [
            f"{arm} {units.share(frozen.share)} ({frozen.bytes / 1e6:.0f} MB)"
            for arm, frozen in writes.items()
            if frozen.share >= _FROZEN and frozen.bytes >= _FROZEN_BYTES
        ]
        if much:
            at = units.at(point.point)
            yield (
                f"Data written back while an arm was frozen is charged to no run{at}: {', '.join(much)}; "
                "their flush is too small by these amounts."
            )


def _conduct(session: Session, analysis: Analysis) -> Iterator[str]:
    """Return notes on figures that are adjusted, left out, or depend on a few runs."""
    for fact in read_facts(session.facts):
        if fact.kind is NO_OUTSIDE_CPU:
            yield from _without_outside(session, analysis, fact.text)
        elif fact.kind is NO_RERUN:
            yield f"disturbed runs of {fact.of} are flagged and not rerun: {fact.text}"
    whole = [comparison for comparison in whole_real(analysis.comparisons) if not comparison.control]
    if any(comparison.adjusted is not None for comparison in whole):
        yield "° seconds are adjusted as the ratio below them: what they would be at the baseline's speed"
    for comparison in whole:
        if comparison.outliers and comparison.untrimmed:
            yield (
                f"{units.against(comparison)}: the trimmed mean is {units.percent(comparison.ratio or 0)}, "
                f"the mean of all rounds {units.percent(comparison.untrimmed)}: a few runs cause the difference"
            )
    for pair in analysis.unrepeated:
        if pair.differs and pair.found.ratio and pair.without.ratio:
            without = pair.without
            change = percent_interval(without.estimate)
            yield f"{units.against(without)} without reruns: {change}"


def driver_notes(arms: Sequence[str]) -> Iterator[str]:
    """Return notes on drivers whose root filesystem these arms use, each once."""
    of: dict[str, list[str]] = {}
    for arm in arms:
        parsed = known_arm(arm)
        if parsed and not parsed.plain_root:
            for note in dict.fromkeys(note for part in parsed.parts for note in driver_of(part).notes):
                of.setdefault(note, []).append(arm)
    yield from (f"{', '.join(users)}: {note}" for note, users in of.items())


def copies_all(arm: str) -> bool:
    """Return whether a driver copies the whole root filesystem."""
    parsed = known_arm(arm)
    return parsed is not None and driver_of(parsed).copies_all


def copied(session: Session) -> tuple[str, ...]:
    """Return arms whose warm figure differs from their cost in use: the page cache has their files, just written."""
    if CACHES.text(session.facts) != "warm":
        return ()
    measured = {sample.arm for sample in session.samples if sample.counts}
    return tuple(arm for arm in session.arms if arm in measured and copies_all(arm))


def copied_why(session: Session) -> Iterator[tuple[str, str]]:
    """Yield these arms, and why: where files share extents, a copy is a clone, whose files the page cache lacks."""
    clones = [arm for arm in copied(session) if (parsed := known_arm(arm)) and parsed.filesystem in _SHARES_EXTENTS]
    copies = [arm for arm in copied(session) if arm not in clones]
    if copies:
        yield ", ".join(copies), "all files are copied into memory before the clock starts"
    if clones:
        yield ", ".join(clones), "all files are cloned before the clock starts, and none is in the page cache"


def copied_notes(session: Session) -> Iterator[str]:
    for arms, why in copied_why(session):
        yield f"{arms}: {why}; the warm time is not the cost in use (--cache cold)"


def _reads(session: Session, analysis: Analysis) -> Iterator[str]:
    """Return the arms that read from the disk although caches are warm."""
    if CACHES.text(session.facts) != "warm":
        return
    for point in analysis.points:
        megabytes = {runs.arm: (runs.mean(runs.whole, "read_bytes") or 0.0) / 1e6 for runs in point.arms}
        many = [f"{arm} {amount:.0f} MB" for arm, amount in megabytes.items() if amount >= _WARM_READS]
        if many:
            at = f" at {point.point}" if point.point else ""
            cold = dict.fromkeys(driver.cold_root for _, driver in registered() if driver.cold_root)
            yield (
                f"read from the disk in a warm run{at}, on average: {', '.join(many)}. What each container "
                f"reads again is part of its cost: {'; '.join(cold)}"
            )


def _loads(session: Session) -> Iterator[str]:
    """Return the loads; the first run of each arm represents all of them."""
    if not any(map(attrgetter("load"), session.samples)):
        return
    beside = [sample for sample in session.samples if sample.load and sample.counts]
    first = {sample.arm: sample.load for sample in reversed(beside)}
    if first:
        loads = "; ".join(f"{arm}: {load}" for arm, load in first.items())
        yield f"background load beside every run, here in the first round: {loads}; its I/O is in flush and in bytes"


def _filesystems(session: Session) -> Iterator[str]:
    for fact in UNCONFIRMED.find(session.facts):
        yield f"@{fact.of}: the kernel accepted the mount options {fact.text} but does not confirm them"
    for arm, baseline in session.baselines:
        parsed, parsed_baseline = session.known_arm(arm), session.known_arm(baseline)
        if session.request.baseline and parsed and parsed_baseline and parsed.filesystem != parsed_baseline.filesystem:
            yield f"{arm} and its baseline {baseline} lie on different filesystems: you named the baseline"


def _intervals(analysis: Analysis) -> str:
    family = max(comparison.family for comparison in analysis.comparisons)
    text = "intervals in the tables are individual 95 % intervals"
    if family > 1:
        text += f"; verdicts are corrected for {family} comparisons (simultaneous intervals)"
    return text
