"""What costs an arm its penalty, by system calls: sentences first, then a table for each arm and phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from kit.analysis.session.analyse import Analysis
from kit.analysis.stats.estimate import Interval
from kit.analysis.traces.calls import CallCosts, CallPart, CopyUps, Overhead
from kit.model.fact import NO_TRACING, TRACING
from kit.model.sample import TOTAL
from kit.model.session import Session
from kit.report.format import units
from kit.report.format.interval import amount_interval, percent_interval
from kit.report.format.wrap import NARROW, wrap

#: Most calls of a table, and groups of a sentence; both omit parts below this share of the largest.
_CALLS, _SAID, _LEAST = 12, 3, 0.02
#: The least part of the largest one that a group in a sentence has.
_WORTH = 0.05
_HEADERS = ("calls", "base", "each", "base", "more, 95 %", "share")
_PROCESS_TIME = "process time: CPU time of all processes, and how long calls waited (disk, FUSE daemon, locks)"
_USER, _REST, _ALL = "user time (caches, TLB)", "rest (faults, tracing)", "total"


#: Counts of a phase, each a sum of metrics.
_COUNTED = {
    "page faults": ("minor_faults", "major_faults"),
    "context switches": ("voluntary_switches", "involuntary_switches"),
}


def render_calls(session: Session, analysis: Analysis) -> str:
    """Return the text, NARROW columns at most."""
    lacking = NO_TRACING.text(session.facts)
    lines = [f"not traced: {lacking}"] if lacking else []
    if not analysis.calls:
        lines += ["this session traced no calls; run kit compare … --explain-calls"]
        return "\n".join(wrap(line, NARROW) for line in lines) + "\n"
    whole = whole_runs(analysis)
    lines += [line for costs in whole for line in call_sentences(costs)]
    lines += [_PROCESS_TIME, tracing(session, analysis.overheads)]
    parts = [text(costs, analysis) for costs in whole]
    parts += [_of_phase(costs) for costs in analysis.calls if costs not in whole and costs.phase != TOTAL]
    return "\n\n".join(["\n".join(wrap(line, NARROW) for line in lines), *parts]) + "\n"


def _of_phase(costs: CallCosts) -> str:
    """Return the sentences of a phase; its tables are in the data."""
    return "\n".join(wrap(line, NARROW) for line in (f"{costs.phase}:", *call_sentences(costs)))


def whole_runs(analysis: Analysis) -> list[CallCosts]:
    """Return, for each arm and point, the total, or the only phase."""
    return list({(costs.arm, costs.baseline, costs.point): costs for costs in analysis.calls}.values())


def call_sentences(costs: CallCosts) -> Iterator[str]:
    """Return the answer, ``layer:overlay2 over bare: +0.62 s […] of process time, significant in open 65 %, …``, then a
    line for each group named there, and for copy-ups."""
    groups = _said(costs)
    over = f"{costs.arm}{units.at(costs.point)} over {costs.baseline}"
    yield f"{over}: {_seconds(costs.whole)} of process time{_in(costs, groups)}"
    for part in groups:
        yield f"  {_sentence(part, _dearest(costs, part))}"
    yield from (f"  {line}." for line in copied(costs.copied, "copied up from lower layers"))


def _said(costs: CallCosts) -> list[CallPart]:
    """Return the groups that differ significantly and make a part of the difference that is worth a sentence."""
    sizes = [
        abs(interval.estimate) for interval in (costs.user, costs.rest, *(part.difference for part in costs.groups))
    ]
    groups = [part for part in costs.groups if part.difference.leaves_out(0.0)]
    return [part for part in groups if abs(part.difference.estimate) >= _WORTH * max(sizes)][:_SAID]


def _in(costs: CallCosts, groups: Sequence[CallPart]) -> str:
    none = "" if costs.whole.leaves_out(0.0) else ", not significant as a whole"
    if groups:
        return f"{none}; significant in {', '.join(f'{part.group}{_share(part)}' for part in groups)}."
    if not costs.groups:
        return f"{none}."
    most = costs.groups[0]
    little = any(part.difference.leaves_out(0.0) for part in costs.groups)
    why = f"is {units.share(_WORTH)} of the largest part or more" if little else "differs significantly"
    return f"{none}. No group of calls {why}: the largest, {most.group}, {_seconds(most.difference)}."


def _share(part: CallPart) -> str:
    return "" if part.share is None else f" {units.share(part.share)}"


def largest_group(costs: CallCosts) -> str:
    """Return a sentence on the group of calls whose cost grew most; '' if none differs significantly by enough."""
    groups = _said(costs)
    if not groups:
        return ""
    return (
        f"{costs.arm}{units.at(costs.point)} over {costs.baseline}, by traced calls: of {_seconds(costs.whole)} of "
        f"process time {_sentence(groups[0], _dearest(costs, groups[0]))}"
    )


def _dearest(costs: CallCosts, part: CallPart) -> CallPart | None:
    """Return the call with the largest part of a group's difference."""
    calls = [call for call in costs.calls if call.group == part.group]
    return max(calls, key=lambda call: abs(call.difference.estimate), default=None)


def _sentence(part: CallPart, call: CallPart | None) -> str:
    share = f" ({_share(part).strip()})" if part.share is not None else ""
    text = f"{' '.join(_seconds(part.difference).split()[:2])}{share} is {part.group}"
    if call is None:
        return f"{text}."
    return f"{text}: {call.name}, {call.count:,.0f} at {_each(call.each)}, {_instead(call)}."


def _instead(call: CallPart) -> str:
    if not call.base_count:
        return "none on the baseline"
    return f"on the baseline {call.base_count:,.0f} at {_each(call.base_each)}"


def tracing(session: Session, overheads: Sequence[Overhead]) -> str:
    listed = ", ".join(
        f"{overhead.arm}{units.at(overhead.point)} {percent_interval(overhead.ratio)}" for overhead in overheads
    )
    return f"traced: {TRACING.text(session.facts)}. Tracing made runs longer: {listed}."


def text(costs: CallCosts, analysis: Analysis) -> str:
    """Return tables and notes for a terminal."""
    title = f"{costs.phase}: {units.against(costs)}, {costs.n} traced rounds; real {_seconds(costs.real)}"
    lines = [title]
    for table in call_tables(costs):
        lines += [table.title] if table.title else []
        align = ("left", *["right"] * (len(table.headers) - 1))
        aligned = align if table.rows else None
        lines.append(tabulate(table.rows, table.headers, tablefmt="simple", disable_numparse=True, colalign=aligned))
    return "\n".join([*lines, *(wrap(line, NARROW) for line in call_notes(costs, analysis))])


@dataclass(frozen=True)
class CallTable:
    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


def call_tables(costs: CallCosts) -> list[CallTable]:
    """Return tables by group, with parts that add up to the whole; by call; of FUSE requests and kernel functions, if
    any."""
    rows = [_row(part, part.group) for part in _shown(costs.groups)]
    hidden = [part.difference.estimate for part in costs.groups if part not in _shown(costs.groups)]
    if hidden:
        rows.append([f"{len(hidden)} smaller groups", "", "", "", "", f"{sum(hidden):+z.3f} s", ""])
    for name, interval in ((_USER, costs.user), (_REST, costs.rest), (_ALL, costs.whole)):
        rows.append([name, "", "", "", "", _seconds(interval), _percent(costs.share(interval))])
    tables = [CallTable("", ("", *_HEADERS), rows)]
    tables.append(CallTable("", ("by call", *_HEADERS), [_row(part, part.name) for part in _shown(costs.calls)]))
    for what, parts in (
        ("requests to a FUSE daemon; the calls above waited for them, but not for pages written back", costs.fuse),
        ("functions of the kernel, with what they call; part of the calls above", costs.functions),
    ):
        if counted := [part for part in parts if part.count or part.base_count]:
            rows = [_row(part, part.name)[:-1] for part in _shown(counted)]
            tables.append(CallTable(what, ("", *_HEADERS[:-1]), rows))
    return tables


def call_notes(costs: CallCosts, analysis: Analysis) -> Iterator[str]:
    """Return related counts, a line each."""
    yield from filter(None, [_beside(costs, analysis)])
    yield from copied(costs.copied, "copied up per run")
    if costs.copied != CopyUps():
        yield "copies that were removed in the same phase are not counted"
    if errors := list(_errors(costs)):
        yield f"errors per run that the baseline does not have: {', '.join(errors)}"
    if any(costs.lost):
        yield f"not recorded: {costs.lost[0]:,.0f} calls per run, on the baseline {costs.lost[1]:,.0f}"


def _errors(costs: CallCosts) -> Iterator[str]:
    """Return the errors that the arm has more often, by one and by a hundredth at least."""
    for part in costs.calls:
        base_errors = dict(part.base_errors)
        for name, count in part.errors:
            there = base_errors.get(name, 0.0)
            if count >= max(there + 1.0, 1.01 * there):
                yield f"{part.name} {name} {count:,.0f}{f' (baseline {there:,.0f})' if there else ''}"


def _beside(costs: CallCosts, analysis: Analysis) -> str:
    """Return counts from measured runs."""
    counts = []
    for what, names in _COUNTED.items():
        here, there = (analysis.arm(arm, costs.point).mean(costs.phase, *names) for arm in (costs.arm, costs.baseline))
        if here is not None and there is not None:
            counts.append(f"{what} {here:,.0f}, on the baseline {there:,.0f}")
        else:
            counts.append(f"{what} not available")
    return f"in measured runs: {'; '.join(counts)}" if counts else ""


def copied(copies: CopyUps, what: str) -> Iterator[str]:
    """Return ``copied up per run: 212 files, 8.48 MB in size, at most 8.48 MB of it copied, and 14 directories``, then
    what may have been copied, and the unions without known copy-ups."""
    amounts = [f"{_many(copies.files, 'file', 'files')}{_sizes(copies)}"] if copies.files else []
    amounts += [_many(copies.directories, "directory", "directories")] if copies.directories else []
    if amounts:
        yield f"{what}: {', and '.join(amounts)}"
    if copies.unmarked:
        yield f"{what} or created: {_many(copies.unmarked, 'file', 'files')}; the union does not mark such copies"
    if copies.unseen:
        other = " in others" if amounts else ""
        unions = _many(copies.unseen, "union", "unions")
        yield f"{what}: unknown{other}, the upper directory of {unions} was not found"


def _sizes(copies: CopyUps) -> str:
    if not copies.bytes:  # metadata alone, or empty files
        return ""
    data = "bytes copied not available (the filesystem does not list what files share, or an older kit traced it)"
    if copies.copied_bytes is not None:
        data = f"at most {_bytes(copies.copied_bytes)} of it copied"
    return f", {_bytes(copies.bytes)} in size, {data}"


def _bytes(size: float) -> str:
    return f"{size / 1e6:,.2f} MB" if size >= 1e5 else f"{size:,.0f} B"


def _many(count: float, singular: str, plural: str) -> str:
    """Return ``1 file``, ``1.3 files``; a mean of several runs may be a fraction."""
    exact = f"{count:,.0f}" if count == int(count) or count >= 10 else f"{count:,.1f}"
    return f"{exact} {singular if count == 1 else plural}"


def _shown(parts: Sequence[CallPart]) -> list[CallPart]:
    least = _LEAST * max((abs(part.difference.estimate) for part in parts), default=0.0)
    return [part for part in parts if abs(part.difference.estimate) >= least][:_CALLS]


def _row(part: CallPart, name: str) -> list[str]:
    return [
        name, f"{part.count:,.0f}", f"{part.base_count:,.0f}", _each(part.each),
        _each(part.base_each), _seconds(part.difference), _percent(part.share),
    ]  # fmt: skip


def _percent(share: float | None) -> str:
    return units.NOTHING if share is None else units.share(share)


def _seconds(interval: Interval) -> str:
    return amount_interval(interval)


def _each(each: float | None) -> str:
    if each is None:
        return units.NOTHING
    scale, unit = next(
        (candidate for candidate in ((1e6, "µs"), (1e3, "ms")) if each * candidate[0] < 999.5), (1.0, "s")
    )
    return f"{each * scale:#.3g}".rstrip(".") + f" {unit}"
