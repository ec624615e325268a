"""A farm's answer: which sessions of which machines make one figure for each arm, and what was left out. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kit.analysis import stats
from kit.analysis.analyse import Analysis, whole_real
from kit.analysis.arm_variance import median_share
from kit.analysis.compare import Comparison, is_control
from kit.analysis.farm import LEAST, FarmRatio, MachineRatio, over_machines
from kit.analysis.history import SEVERAL, Conditions, Entry, agree, differences, make_entry
from kit.analysis.outcome import outcomes
from kit.analysis.stats import Interval
from kit.model.fact import ASKED, GUEST, TOGETHER
from kit.model.machine_class import class_of
from kit.model.session import Session

#: Why a session of several machines counts as none's.
SHARED = "its rounds are several machines' (kit fleet show SESSION)"
#: Classes are said to differ where so clear a difference is as rare among alike ones.
APART = 0.05


@dataclass(frozen=True)
class FarmArm:
    """An arm over all machines, and over those of each class where there are several. ``apart``: p of classes that
    differ as much where they are alike (one-way analysis of variance); None where that can't be told."""

    arm: str
    baseline: str
    point: str
    phase: str
    metric: str
    whole: FarmRatio
    classes: tuple[FarmRatio, ...] = ()
    apart: float | None = None

    @property
    def classes_differ(self) -> bool:
        return self.apart is not None and self.apart < APART


@dataclass(frozen=True)
class LeftOut:
    """A session that does not count, and ``why``. ``machine``: its machine's name; '' of a session of several."""

    machine: str
    session: str
    why: str


@dataclass(frozen=True)
class FarmAnswer:
    """Of one scenario. ``classes``: how many machines of each were measured. ``left_out``: what does not count.
    ``together``: workers among the machines that may have shared a machine with others."""

    title: str
    arms: tuple[FarmArm, ...]
    classes: Mapping[str, int]
    left_out: tuple[LeftOut, ...] = ()
    together: tuple[str, ...] = ()

    @property
    def machines(self) -> int:
        return sum(self.classes.values())


def answer_sessions(found: Sequence[tuple[Session, Analysis]]) -> FarmAnswer:
    """Of sessions just measured: real time of the whole run."""
    entries = []
    for session, analysis in found:
        made = outcomes(analysis.runs, whole_real(analysis.comparisons))
        entries += [make_entry(session, item) for item in made if item.comparison.ratio]
    return answer(found[0][0].title if found else "", entries)


def answer(title: str, entries: Iterable[Entry]) -> FarmAnswer:
    """Of all arms that the entries are of, one metric of each. The newest session of each machine counts, of those that
    agree in kit, settings and digests with most machines."""
    by_arm = _by_arm(entries)
    arms, left, classes, together = [], dict[LeftOut, None](), dict[str, str](), set[str]()
    for listed in by_arm.values():
        kept, why = alike(listed)
        left |= dict.fromkeys(why)
        together |= {_name(entry) for entry in kept if TOGETHER.key in entry.conditions.facts}
        ratios = [machine_ratio(entry) for entry in kept]
        classes |= {item.machine: item.machine_class for item in ratios}
        arms.append(_arm(listed[-1].outcome.comparison, ratios, len(by_arm)))
    names = sorted(classes.values())
    return FarmAnswer(title, tuple(arms), {name: names.count(name) for name in names}, tuple(left),
                      tuple(sorted(together)))  # fmt: skip


def settles(entries: Sequence[Entry], machines: int) -> bool:
    """Whether entries of the newest session of each of so many machines have all that ``answer`` wants: a figure of
    each arm by each, all of which agree. Older sessions count for nothing then."""
    by_arm = _by_arm(entries)
    if not by_arm or not all(map(_alone, entries)):
        return False
    return all([len(group) for group in _groups(listed)] == [machines] for listed in by_arm.values())


def _alone(entry: Entry) -> bool:
    """Whether a store tells its machine from all others, so that it knows the newest session of it."""
    return bool(entry.machine) and entry.machine == _machine(entry) and SEVERAL not in entry.worker


def _by_arm(entries: Iterable[Entry]) -> dict[tuple[str, str, str], list[Entry]]:
    """In the order of time."""
    found: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in sorted(entries, key=lambda item: (item.created, item.session)):
        item = entry.outcome.comparison
        if not is_control(item.arm) and item.ratio:
            found.setdefault((item.arm, item.baseline, item.point), []).append(entry)
    return found


def alike(entries: Sequence[Entry]) -> tuple[list[Entry], list[LeftOut]]:
    """Of one arm, in the order of time: the newest entry of each machine, of those whose kit, settings and digests most
    machines have in common; and of the machines that have none such what they differ in."""
    shared = [entry for entry in entries if SEVERAL in entry.worker]
    entries = [entry for entry in entries if SEVERAL not in entry.worker]
    groups = _groups(entries)
    best = max(groups, key=lambda group: (len(group), max(item.created for item in group.values())), default={})
    some = next(iter(best.values()), None)
    left = [LeftOut("", entry.session, SHARED) for entry in shared]
    for machine, entry in {_machine(item): item for item in entries}.items():
        if some and machine not in best:
            left.append(LeftOut(_name(entry), entry.session, "; ".join(_unlike(some, entry))))
    return sorted(best.values(), key=_name), left


def _groups(entries: Sequence[Entry]) -> list[dict[str, Entry]]:
    """Of those that agree the last of each machine. Most are asked for in the very same words."""
    groups: list[tuple[str, Conditions, dict[str, Entry]]] = []
    known: dict[Hashable, dict[str, Entry]] = {}
    for entry in entries:
        kit, asked = entry.kit_version, _asked(entry)
        key = kit, frozenset(asked.facts.items()), frozenset(asked.digests.items())
        if key not in known:
            mine = next((group for its, theirs, group in groups if its == kit and agree(theirs, asked)), None)
            if mine is None:
                groups.append((kit, asked, mine := {}))
            known[key] = mine
        known[key][_machine(entry)] = entry
    return [group for _, _, group in groups]


def _machine(entry: Entry) -> str:
    """Tells machines apart: a fleet may give one another name, but workers that measured together share theirs."""
    together = TOGETHER.key in entry.conditions.facts
    return f"{entry.machine} {entry.worker}" if together else entry.machine or entry.worker


def _name(entry: Entry) -> str:
    return entry.worker or entry.machine


def _unlike(one: Entry, other: Entry) -> list[str]:
    found = [] if one.kit_version == other.kit_version else [f"kit: {one.kit_version} → {other.kit_version}"]
    return found + [str(item) for item in differences(_asked(one), _asked(other))]


def _asked(entry: Entry) -> Conditions:
    """What must not differ among machines: all that was asked for and run; machines themselves may."""
    keys = {kind.key for kind in (*ASKED, GUEST)}
    return Conditions(
        {key: text for key, text in entry.conditions.facts.items() if key in keys}, entry.conditions.digests
    )


def machine_ratio(entry: Entry) -> MachineRatio:
    item = entry.outcome.comparison
    degrees = stats.own_degrees(item.n) + item.borrowed
    return MachineRatio(
        _name(entry),
        class_of(entry.conditions.facts),
        entry.session,
        Interval(entry.ratio, item.low, item.high, item.n),
        _variance(item, degrees),
        max(degrees, 1),
    )


def _variance(item: Comparison, degrees: int) -> float | None:
    """Of the ratio's logarithm. ``spread`` is as often too large as too small; the mean over machines must be right."""
    if not item.spread:
        return None
    return item.spread**2 / item.n * float(median_share(np.array(degrees)))


def _arm(item: Comparison, ratios: Sequence[MachineRatio], family: int) -> FarmArm:
    names = sorted({one.machine_class for one in ratios})
    whole = over_machines(ratios, "" if len(names) > 1 else names[0], family)
    made = FarmArm(item.arm, item.baseline, item.point, item.phase, item.metric, whole)
    if len(names) < 2:
        return made
    groups = [[one for one in ratios if one.machine_class == name] for name in names]
    classes = tuple(over_machines(group, group[0].machine_class, family) for group in groups)
    return replace(made, classes=classes, apart=find_apart([[one.log for one in group] for group in groups]))


def find_apart(groups: Sequence[Sequence[float]]) -> float | None:
    """p of means of groups that lie as far apart where all are the same (one-way analysis of variance)."""
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
