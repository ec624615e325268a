"""Disturbances: runs that other programs affected. The rule is fixed before the session and ignores the result. Pure.

The rule uses the machine alone: CPU stolen by the hypervisor, calibration spins around the run, CPU time of other
programs, pressure that the arm does not cause. To leave out a run because of its *time* would bias the comparison. To
leave out a run because the machine was busy does not, unless the arm made the machine busy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from kit.model.sample import RUN_ORDER, SEQUENTIAL, Phase, Sample, total

Bursts = Mapping[tuple[str, str, int], str]


#: CPU stolen, as a share of the run's real time.
_STEAL = 0.05
#: A spin before or after the run took longer than the session's median spin by this share.
_CALIBRATION = 0.15
#: Part of the run's time in which some task of the machine, but no task of the session, waited for CPU, I/O or memory.
#: This share is the limit above the arm's usual value: the median of its runs. Below ``_FEW`` rounds the usual value is
#: the minimum, since two disturbances would shift the median.
_PRESSURE, _FEW = 0.05, 6
#: Outside CPU above the arm's usual value, as a share of the run's CPU time or real time, the larger. It must occur in
#: two arms or more. A program that takes a CPU makes the session's own tasks wait, which pressure does not show.
_OUTSIDE, _ARMS = 0.05, 2
#: Steal, and the excess of pressure or outside CPU, must also reach this number of seconds. In shorter runs
#: disturbances cannot be detected.
_LEAST = 0.2
#: Flags that gather in one arm with at most this probability are caused by the arm.
_NATURE = 0.05
#: Reasons for a flag, as a session records them. For interleaved runs, each limit is on the excess over the median of
#: the round's other arms: an equal disturbance of all arms cancels in their ratios.
RULE = (
    f"steal > {100 * _STEAL:.0f} % of real; calibration spin > {100 * _CALIBRATION:.0f} % over the session's median; "
    f"CPU, I/O or memory pressure less the session's own > {_PRESSURE * 100:.0f} points over the arm's "
    f"median (below {_FEW} rounds its least); outside CPU > {100 * _OUTSIDE:.0f} % of the run's own CPU time "
    f"over it likewise, in {_ARMS} arms or more; steal, pressure and outside CPU by {_LEAST:g} s at least; "
    f"interleaved runs by that much more than the median of the other arms of their round; "
    f"not rerun where flags gather in one arm (p < {_NATURE:g})"
)
_PRESSURES = ("psi_cpu", "psi_io", "psi_memory")
OUTSIDE = "outside"


def find_bursts(samples: Sequence[Sample]) -> dict[tuple[str, str, int], str]:
    """Return reasons by (arm, point, round), for measured runs that succeeded. Reruns are not judged again."""
    runs = _judged(samples)
    spins = [value for run in runs for value in (run.calibration_before, run.calibration_after) if value]
    usual_spin = median(spins) if spins else None
    usual = _usual_shares(runs)
    excess = {_where(run): _excesses(run, usual_spin, usual) for run in runs}
    rounds: dict[tuple[str, int], list[tuple[str, str, int]]] = {}
    for run in runs:
        if dict(run.digests).get(RUN_ORDER, SEQUENTIAL) != SEQUENTIAL:
            rounds.setdefault((run.point, run.round), []).append(_where(run))
    disturbed: dict[tuple[str, str, int], dict[str, str]] = {}
    for run in runs:
        others = [excess[where] for where in rounds.get((run.point, run.round), ()) if where != _where(run)]
        reasons = dict(_reasons(run, excess[_where(run)], others))
        if reasons:
            disturbed[_where(run)] = reasons
    # Outside CPU may come from an arm's own daemon or kernel thread; other programs affect two arms or more.
    if len({arm for (arm, _, _), reasons in disturbed.items() if OUTSIDE in reasons}) < _ARMS:
        disturbed = {where: {name: text for name, text in reasons.items() if name != OUTSIDE}
                     for where, reasons in disturbed.items()}  # fmt: skip
    return {where: "; ".join(reasons.values()) for where, reasons in disturbed.items() if reasons}


def own_nature(samples: Sequence[Sample], bursts: Bursts) -> dict[tuple[str, str], str]:
    """Return the arms (and points) in which flags gather, with the figures. Outside disturbances affect every arm in
    proportion to its running time. So these flags are caused by the arm, and are part of its cost."""
    seconds: dict[tuple[str, str], float] = {}
    runs: Counter[tuple[str, str]] = Counter()
    for run in _judged(samples):
        key = run.arm, run.point
        seconds[key] = seconds.get(key, 0.0) + (total(run.phases).real or 0.0)
        runs[key] += 1
    flags = Counter((arm, point) for arm, point, _ in bursts)
    whole, all_flags = sum(seconds.values()), flags.total()
    flagged = {}
    for key, count in flags.items():
        share = seconds[key] / whole if whole else 1.0
        if share < 1 and _at_least(count, all_flags, share) < _NATURE:
            others = f"{all_flags - count} of {runs.total() - runs[key]} of the others"
            flagged[key] = f"{count} of {runs[key]} runs flagged, {others}"
    return flagged


def _at_least(count: int, trials: int, chance: float) -> float:
    """Return the binomial probability of ``count`` or more of the trials. ``count``: 1 at least."""
    from scipy.special import bdtrc

    return float(bdtrc(count - 1, trials, chance))


def _judged(samples: Sequence[Sample]) -> list[Sample]:
    return [
        sample for sample in samples if sample.kind == "measured" and sample.status == "ok" and sample.rerun_of is None
    ]


def _where(run: Sample) -> tuple[str, str, int]:
    return run.arm, run.point, run.round


def _excesses(run: Sample, usual_spin: float | None, usual: Mapping[tuple[str, str, str], float]) -> dict[str, float]:
    """Return the excess of a run's figures over usual values, by name, as shares. Unmeasured figures are missing."""
    phase, excesses = total(run.phases), {}
    if phase.steal and phase.real:
        excesses["steal"] = phase.steal / phase.real
    for when, spin in (("before", run.calibration_before), ("after", run.calibration_after)):
        if spin and usual_spin:
            excesses[when] = spin / usual_spin - 1
    for name, share in _shares(run):
        excesses[name] = share - usual[run.arm, run.point, name]
    return excesses


def _reasons(
    run: Sample, excess: Mapping[str, float], others: Sequence[Mapping[str, float]]
) -> Iterable[tuple[str, str]]:
    """Return names of figures, each with the reason for the flag. ``others``: the other arms of the same interleaved
    round. An equal disturbance of all arms cancels in their ratios."""
    phase = total(run.phases)
    real, used = phase.real or 0.0, cpu_seconds(phase)
    common = {name: max(0.0, median(other.get(name, 0.0) for other in others)) for name in excess} if others else {}
    beyond = {name: value - common.get(name, 0.0) for name, value in excess.items()}
    if beyond.get("steal", 0.0) > _STEAL and beyond["steal"] * real > _LEAST:
        yield "steal", f"steal {100 * excess['steal']:.0f} %"
    for when in ("before", "after"):
        if beyond.get(when, 0.0) > _CALIBRATION:
            yield when, f"calibration {when} it +{100 * excess[when]:.0f} %"
    for name in _PRESSURES:
        if beyond.get(name, 0.0) > _PRESSURE and beyond[name] * real > _LEAST:
            share = 100 * (_pressure(phase, name) or 0.0)
            yield name, f"{name.removeprefix('psi_')} pressure from outside {share:.0f} %"
    if real and beyond.get(OUTSIDE, 0.0) > _OUTSIDE and beyond[OUTSIDE] * used > _LEAST:
        yield OUTSIDE, f"other programs used {excess[OUTSIDE] * used / real:.2f} CPUs"


def _usual_shares(runs: Sequence[Sample]) -> dict[tuple[str, str, str], float]:
    shares: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        for name, share in _shares(run):
            shares.setdefault((run.arm, run.point, name), []).append(share)
    return {key: usual_of(values) for key, values in shares.items()}


def usual_of(values: Sequence[float]) -> float:
    """Return the usual value of an arm, given a figure of each of its runs."""
    return min(values) if len(values) < _FEW else median(values)


def _shares(run: Sample) -> Iterator[tuple[str, float]]:
    """Return the figures that are judged by the arm's usual value, as shares. Unmeasured figures are missing."""
    phase = total(run.phases)
    for name in _PRESSURES:
        share = _pressure(phase, name)
        if share is not None:
            yield name, share
    used = cpu_seconds(phase)
    if phase.outside is not None and used:
        yield OUTSIDE, phase.outside / used


def cpu_seconds(phase: Phase) -> float:
    """Return the CPU seconds of the build, or its real time if longer. Other programs' CPU time is compared with this
    value, so that one busy CPU of two counts for more than one of sixty-four."""
    seconds = (phase.user, phase.sys) if phase.cgroup_user is None else (phase.cgroup_user, phase.cgroup_sys)
    return max(sum(value or 0.0 for value in seconds), phase.real or 0.0)


def _pressure(phase: Phase, name: str) -> float | None:
    """Return the share of the run's time in which some task of the machine, but no task of the session, waited. None if
    the session's own pressure is unknown: an arm's own waits would then pass for disturbances."""
    waited, own_wait = phase.metric(name), phase.metric(f"{name}_own")
    if waited is None or own_wait is None or not phase.real:
        return None
    return max(0.0, waited - own_wait) / phase.real
