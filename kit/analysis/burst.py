"""Bursts: runs that something outside hit. The rule is fixed before the session and knows nothing of the result. Pure.

It looks at the machine alone: CPU stolen by the hypervisor, the calibration spins around the run, CPU time of other
programs, pressure that is not the arm's own. Leaving out a run because its *time* is odd would bias the comparison;
leaving it out because the machine was busy does not, as long as it is not the arm that made it busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from kit.model.sample import RUN_ORDER, SEQUENTIAL, Phase, Sample, total

Bursts = Mapping[tuple[str, str, int], str]


@dataclass(frozen=True)
class BurstRule:
    """What makes a run flagged.

    ``steal``: CPU stolen, as a share of the run's real time. ``calibration``: a spin before or after the run took so
    much longer than the median spin of the session. ``pressure``: the share of the run's time in which some task of
    the machine, and none of the session's, waited for CPU, I/O or memory lies so far above what is usual for the arm:
    the median of its runs, the least of them below ``few`` rounds, where two hits would make the median. ``outside``:
    outside CPU lies above what is usual for the arm by so large a share of the CPU time of the run's own, of its real
    time where that is longer, in two arms or more. A program that takes a CPU makes the session's own tasks wait, which
    no pressure shows.
    ``least``: steal, and what is above the usual pressure or outside CPU, must come to so many seconds too; in runs
    shorter than that nothing can be told. ``nature``: flags that gather in one arm with no more than this probability
    by chance are its own doing.

    Of interleaved runs, each limit is on the excess over the median of the other arms of the round: a disturbance that
    hit all of them alike cancels in their ratios.
    """

    steal: float = 0.05
    calibration: float = 0.15
    pressure: float = 0.05
    outside: float = 0.05
    least: float = 0.2
    few: int = 6
    nature: float = 0.05

    def __str__(self) -> str:
        return (
            f"steal > {self.steal:.0%} of real; calibration spin > {self.calibration:.0%} over the session's median; "
            f"CPU, I/O or memory pressure less the session's own > {self.pressure * 100:.0f} points over the arm's "
            f"median (below {self.few} rounds its least); outside CPU > {self.outside:.0%} of the run's own CPU time "
            f"over it likewise, in {_ARMS} arms or more; steal, pressure and outside CPU by {self.least:g} s at least; "
            f"interleaved runs by that much more than the median of the other arms of their round; "
            f"not repeated where flags gather in one arm (p < {self.nature:g})"
        )


RULE = BurstRule()
_PRESSURES = ("psi_cpu", "psi_io", "psi_memory")
OUTSIDE = "elsewhere"
#: Arms that have to be hit before outside CPU is taken for that of other programs.
_ARMS = 2


def find_bursts(samples: Sequence[Sample], rule: BurstRule = RULE) -> dict[tuple[str, str, int], str]:
    """Reasons by (arm, point, block), for measured runs that succeeded. Repetitions are not judged again."""
    runs = _judged(samples)
    spins = [value for item in runs for value in (item.calibration_before, item.calibration_after) if value]
    usual_spin = median(spins) if spins else None
    usual = _usual_shares(runs, rule)
    excess = {_where(item): _excesses(item, usual_spin, usual) for item in runs}
    rounds: dict[tuple[str, int], list[tuple[str, str, int]]] = {}
    for item in runs:
        if dict(item.digests).get(RUN_ORDER, SEQUENTIAL) != SEQUENTIAL:
            rounds.setdefault((item.point, item.block), []).append(_where(item))
    found: dict[tuple[str, str, int], dict[str, str]] = {}
    for item in runs:
        others = [excess[where] for where in rounds.get((item.point, item.block), ()) if where != _where(item)]
        reasons = dict(_reasons(item, rule, excess[_where(item)], others))
        if reasons:
            found[_where(item)] = reasons
    # Outside CPU may be an arm's own, of a daemon or a kernel thread: other programs are what hits two arms or more.
    if len({arm for (arm, _, _), reasons in found.items() if OUTSIDE in reasons}) < _ARMS:
        found = {where: {name: text for name, text in reasons.items() if name != OUTSIDE}
                 for where, reasons in found.items()}  # fmt: skip
    return {where: "; ".join(reasons.values()) for where, reasons in found.items() if reasons}


def own_nature(samples: Sequence[Sample], bursts: Bursts, rule: BurstRule = RULE) -> dict[tuple[str, str], str]:
    """Arms (and points) in which flags gather, with the figures: what hits from outside hits every arm in proportion to
    the time that it runs, so this is their own doing, and part of what they cost."""
    seconds: dict[tuple[str, str], float] = {}
    runs: Counter[tuple[str, str]] = Counter()
    for item in _judged(samples):
        key = item.arm, item.point
        seconds[key] = seconds.get(key, 0.0) + (total(item.phases).real or 0.0)
        runs[key] += 1
    flags = Counter((arm, point) for arm, point, _ in bursts)
    whole, all_flags = sum(seconds.values()), flags.total()
    found = {}
    for key, count in flags.items():
        share = seconds[key] / whole if whole else 1.0
        if share < 1 and _at_least(count, all_flags, share) < rule.nature:
            others = f"{all_flags - count} of {runs.total() - runs[key]} of the others"
            found[key] = f"{count} of {runs[key]} runs flagged, {others}"
    return found


def _at_least(count: int, trials: int, chance: float) -> float:
    """Probability of so many of the trials or more (binomial). ``count``: 1 at least."""
    from scipy.special import bdtrc

    return float(bdtrc(count - 1, trials, chance))


def _judged(samples: Sequence[Sample]) -> list[Sample]:
    return [item for item in samples if item.kind == "measured" and item.status == "ok" and item.repeats is None]


def _where(run: Sample) -> tuple[str, str, int]:
    return run.arm, run.point, run.block


def _excesses(run: Sample, usual_spin: float | None, usual: Mapping[tuple[str, str, str], float]) -> dict[str, float]:
    """How far the figures of a run lie above what is usual, by name, as shares. What was not measured is missing."""
    phase, found = total(run.phases), {}
    if phase.steal and phase.real:
        found["steal"] = phase.steal / phase.real
    for when, spin in (("before", run.calibration_before), ("after", run.calibration_after)):
        if spin and usual_spin:
            found[when] = spin / usual_spin - 1
    for name, share in _shares(run):
        found[name] = share - usual[run.arm, run.point, name]
    return found


def _reasons(
    run: Sample, rule: BurstRule, excess: Mapping[str, float], others: Sequence[Mapping[str, float]]
) -> Iterable[tuple[str, str]]:
    """Return names of figures, each with why the run is flagged by it. ``others``: of the other arms of the same
    interleaved round. What hit all alike cancels in their ratios."""
    phase = total(run.phases)
    real, used = phase.real or 0.0, cpu_seconds(phase)
    common = {name: max(0.0, median(item.get(name, 0.0) for item in others)) for name in excess} if others else {}
    beyond = {name: value - common.get(name, 0.0) for name, value in excess.items()}
    if beyond.get("steal", 0.0) > rule.steal and beyond["steal"] * real > rule.least:
        yield "steal", f"steal {excess['steal']:.0%}"
    for when in ("before", "after"):
        if beyond.get(when, 0.0) > rule.calibration:
            yield when, f"calibration {when} it +{excess[when]:.0%}"
    for name in _PRESSURES:
        if beyond.get(name, 0.0) > rule.pressure and beyond[name] * real > rule.least:
            yield name, f"{name.removeprefix('psi_')} pressure from outside {_pressure(phase, name) or 0.0:.0%}"
    if real and beyond.get(OUTSIDE, 0.0) > rule.outside and beyond[OUTSIDE] * used > rule.least:
        yield OUTSIDE, f"other programs used {excess[OUTSIDE] * used / real:.2f} CPUs"


def _usual_shares(runs: Sequence[Sample], rule: BurstRule) -> dict[tuple[str, str, str], float]:
    shares: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        for name, share in _shares(run):
            shares.setdefault((run.arm, run.point, name), []).append(share)
    return {key: usual_of(values, rule) for key, values in shares.items()}


def usual_of(values: Sequence[float], rule: BurstRule = RULE) -> float:
    """Return what is usual for an arm, given a figure of each of its runs."""
    return min(values) if len(values) < rule.few else median(values)


def _shares(run: Sample) -> Iterator[tuple[str, float]]:
    """The figures that are judged by what is usual for the arm, as shares. What was not measured is missing."""
    phase = total(run.phases)
    for name in _PRESSURES:
        share = _pressure(phase, name)
        if share is not None:
            yield name, share
    used = cpu_seconds(phase)
    if phase.elsewhere is not None and used:
        yield OUTSIDE, phase.elsewhere / used


def cpu_seconds(phase: Phase) -> float:
    """Return the CPU seconds of the build, its real time where that is longer: what other programs' CPU time is
    compared with, so that one busy CPU of two counts for more than one of sixty-four."""
    own = (phase.user, phase.sys) if phase.cgroup_user is None else (phase.cgroup_user, phase.cgroup_sys)
    return max(sum(value or 0.0 for value in own), phase.real or 0.0)


def _pressure(phase: Phase, name: str) -> float | None:
    """The share of the run's time in which some task of the machine waited and none of the session's. None where the
    session's own is not known: then nothing tells an arm's own bursts from others'."""
    waited, own = phase.metric(name), phase.metric(f"{name}_own")
    if waited is None or own is None or not phase.real:
        return None
    return max(0.0, waited - own) / phase.real
