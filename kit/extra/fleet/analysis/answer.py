"""A fleet's answer: which sessions of which machines make one figure for each arm, and what was left out. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kit.analysis.runs.compare import Comparison, is_control
from kit.analysis.session.analyse import Analysis, whole_real
from kit.analysis.session.entry import Conditions, Entry, agree, differences, make_entry
from kit.analysis.session.outcome import outcomes
from kit.analysis.stats import estimators
from kit.analysis.stats.arm_variance import median_share
from kit.analysis.stats.estimate import Interval
from kit.extra.fleet.analysis.cost import LEAST, FleetRatio, MachineRatio, over_machines
from kit.model.fact import ASKED, GUEST, SEVERAL, TOGETHER
from kit.model.machine import class_of
from kit.model.session import Session

#: Reasons why a session of several machines counts for no machine.
SHARED = "several machines shared its rounds (kit fleet show SESSION)"
#: Classes are reported as different if p is below this value.
APART = 0.05


@dataclass(frozen=True)
class FleetArm:
    """Figures of an arm over all machines, and over each class if there are several. ``apart``: p of a one-way analysis
    of variance between classes; None if unknown."""

    arm: str
    baseline: str
    point: str
    phase: str
    metric: str
    whole: FleetRatio
    classes: tuple[FleetRatio, ...] = ()
    apart: float | None = None

    @property
    def classes_differ(self) -> bool:
        return self.apart is not None and self.apart < APART


@dataclass(frozen=True)
class LeftOut:
    """A session that does not count, and the reason (``why``). ``machine``: its name; '' for a session of several
    machines."""

    machine: str
    session: str
    why: str


@dataclass(frozen=True)
class FleetAnswer:
    """The answer for one scenario. ``classes``: number of measured machines by class. ``left_out``: sessions that do
    not count. ``shared_machine``: workers that may have disturbed others of their machine."""

    title: str
    arms: tuple[FleetArm, ...]
    classes: Mapping[str, int]
    left_out: tuple[LeftOut, ...] = ()
    shared_machine: tuple[str, ...] = ()

    @property
    def machines(self) -> int:
        return sum(self.classes.values())


def answer_sessions(analysed: Sequence[tuple[Session, Analysis]]) -> FleetAnswer:
    """Return the answer of sessions just measured: real time of the whole run."""
    entries = []
    for session, analysis in analysed:
        whole_outcomes = outcomes(analysis.runs, whole_real(analysis.comparisons))
        entries += [make_entry(session, outcome) for outcome in whole_outcomes if outcome.comparison.ratio]
    return answer(analysed[0][0].title if analysed else "", entries)


def answer(title: str, entries: Iterable[Entry]) -> FleetAnswer:
    """Return the answer for all arms of the entries, in one metric each. Each machine's newest session counts, if its
    kit, settings and digests agree with those of most machines."""
    by_arm = _by_arm(entries)
    arms, left_out, classes, together = [], dict[LeftOut, None](), dict[str, str](), set[str]()
    for listed in by_arm.values():
        comparable, why = alike(listed)
        left_out |= dict.fromkeys(why)
        together |= {_name(entry) for entry in comparable if _together(entry)}
        ratios = [machine_ratio(entry) for entry in comparable]
        classes |= {ratio.machine: ratio.machine_class for ratio in ratios}
        arms.append(_arm(listed[-1].outcome.comparison, ratios, len(by_arm)))
    names = sorted(classes.values())
    return FleetAnswer(title, tuple(arms), {name: names.count(name) for name in names}, tuple(left_out),
                      tuple(sorted(together)))  # fmt: skip


def settles(entries: Sequence[Entry], machines: int) -> bool:
    """Return whether the newest sessions of this number of machines suffice for ``answer``. Each must have a figure of
    every arm, and all must agree. Older sessions do not change the answer then."""
    by_arm = _by_arm(entries)
    if not by_arm or not all(map(_alone, entries)):
        return False
    return all([len(group) for group in _groups(listed)] == [machines] for listed in by_arm.values())


def _alone(entry: Entry) -> bool:
    """Return whether a store distinguishes the machine from all others, and so knows its newest session."""
    return bool(entry.machine) and entry.machine == _machine(entry) and SEVERAL not in entry.worker


def _by_arm(entries: Iterable[Entry]) -> dict[tuple[str, str, str], list[Entry]]:
    """Return the entries by arm, in the order of time."""
    by_arm: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in sorted(entries, key=lambda item: (item.created, item.session)):
        comparison = entry.outcome.comparison
        if not is_control(comparison.arm) and comparison.ratio:
            by_arm.setdefault((comparison.arm, comparison.baseline, comparison.point), []).append(entry)
    return by_arm


def alike(entries: Sequence[Entry]) -> tuple[list[Entry], list[LeftOut]]:
    """Return the newest comparable entry of each machine, and the differences of machines that have none. Comparable:
    kit, settings and digests agree with most machines. ``entries``: of one arm, in the order of time."""
    shared = [entry for entry in entries if SEVERAL in entry.worker]
    entries = [entry for entry in entries if SEVERAL not in entry.worker]
    groups = _groups(entries)
    best = max(groups, key=lambda group: (len(group), max(entry.created for entry in group.values())), default={})
    some = next(iter(best.values()), None)
    left_out = [LeftOut("", entry.session, SHARED) for entry in shared]
    for machine, entry in {_machine(entry): entry for entry in entries}.items():
        if some and machine not in best:
            left_out.append(LeftOut(_name(entry), entry.session, "; ".join(_unlike(some, entry))))
    for entry in {(_machine(entry), entry.worker): entry for entry in entries if _together(entry)}.values():
        if (counts := best.get(_machine(entry))) and counts.worker != entry.worker:
            left_out.append(LeftOut(_name(entry), entry.session, f"{_name(counts)} is a worker of the same machine"))
    return sorted(best.values(), key=_name), left_out


def _groups(entries: Sequence[Entry]) -> list[dict[str, Entry]]:
    """Return groups of entries that agree, with the last entry of each machine. Most have equal settings."""
    groups: list[tuple[str, Conditions, dict[str, Entry]]] = []
    group_by_key: dict[Hashable, dict[str, Entry]] = {}
    for entry in entries:
        kit, conditions = entry.kit_version, _asked(entry)
        key = kit, frozenset(conditions.facts.items()), frozenset(conditions.digests.items())
        if key not in group_by_key:
            joined = next((group for its, theirs, group in groups if its == kit and agree(theirs, conditions)), None)
            if joined is None:
                groups.append((kit, conditions, joined := {}))
            group_by_key[key] = joined
        group_by_key[key][_machine(entry)] = entry
    return [group for _, _, group in groups]


def _machine(entry: Entry) -> str:
    """Return a key that identifies the machine. Fleets may rename it, and it may have several workers."""
    return entry.machine or entry.worker


def _together(entry: Entry) -> bool:
    return TOGETHER.key in entry.conditions.facts


def _name(entry: Entry) -> str:
    return entry.worker or entry.machine


def _unlike(entry: Entry, other: Entry) -> list[str]:
    kit_change = [] if entry.kit_version == other.kit_version else [f"kit: {entry.kit_version} → {other.kit_version}"]
    return kit_change + [str(difference) for difference in differences(_asked(entry), _asked(other))]


def _asked(entry: Entry) -> Conditions:
    """Return the conditions that must be equal on all machines: what was requested and run, but no machine facts."""
    keys = {kind.key for kind in (*ASKED, GUEST)}
    return Conditions(
        {key: text for key, text in entry.conditions.facts.items() if key in keys}, entry.conditions.digests
    )


def machine_ratio(entry: Entry) -> MachineRatio:
    comparison = entry.outcome.comparison
    degrees = estimators.own_degrees(comparison.n) + comparison.borrowed
    return MachineRatio(
        _name(entry),
        class_of(entry.conditions.facts),
        entry.session,
        Interval(entry.ratio, comparison.low, comparison.high, comparison.n),
        _variance(comparison, degrees),
        max(degrees, 1),
    )


def _variance(comparison: Comparison, degrees: int) -> float | None:
    """Return the variance of the ratio's logarithm. ``spread`` is unbiased in the median; the mean over machines must
    be unbiased."""
    if not comparison.spread:
        return None
    return comparison.spread**2 / comparison.n * float(median_share(np.array(degrees)))


def _arm(comparison: Comparison, ratios: Sequence[MachineRatio], family: int) -> FleetArm:
    names = sorted({ratio.machine_class for ratio in ratios})
    whole = over_machines(ratios, "" if len(names) > 1 else names[0], family)
    arm = FleetArm(comparison.arm, comparison.baseline, comparison.point, comparison.phase, comparison.metric, whole)
    if len(names) < 2:
        return arm
    groups = [[ratio for ratio in ratios if ratio.machine_class == name] for name in names]
    classes = tuple(over_machines(group, group[0].machine_class, family) for group in groups)
    return replace(arm, classes=classes, apart=find_apart([[ratio.log for ratio in group] for group in groups]))


def find_apart(groups: Sequence[Sequence[float]]) -> float | None:
    """Return p of a one-way analysis of variance: the probability of such distant group means if all are equal."""
    from scipy.special import fdtrc

    values = [np.asarray(group) for group in groups]
    machines = sum(group.size for group in values)
    between, within = len(values) - 1, machines - len(values)
    if between < 1 or within < LEAST - 1:
        return None
    mean = np.concatenate(values).mean()
    inner = sum(float(((group - group.mean()) ** 2).sum()) for group in values)
    outer = sum(group.size * float((group.mean() - mean) ** 2) for group in values)
    return float(fdtrc(between, within, outer / between / (inner / within))) if inner else None
