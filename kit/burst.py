"""Bursts: runs that something outside hit. The rule is fixed before the session and knows nothing of the result. Pure.

It looks at the machine alone: CPU stolen by the hypervisor, the calibration spins around the run, pressure. Leaving out
a run because its *time* is odd would bias the comparison; leaving it out because the machine was busy does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from kit.sample import Sample, total


@dataclass(frozen=True)
class BurstRule:
    """What makes a run flagged.

    ``steal``: CPU stolen, as a share of the run's real time. ``calibration``: a spin before or after the run took so
    much longer than the median spin of the session. ``pressure``: the share of the run's time in which some task
    waited for CPU, I/O or memory lies so far above the median of the arm's runs. ``least``: steal and what is above
    the usual pressure must come to so many seconds too; in runs shorter than that nothing can be told.
    """

    steal: float = 0.05
    calibration: float = 0.15
    pressure: float = 0.05
    least: float = 0.2

    def __str__(self) -> str:
        return (
            f"steal > {self.steal:.0%} of real; calibration spin > {self.calibration:.0%} over the session's median; "
            f"CPU, I/O or memory pressure > {self.pressure * 100:.0f} points over the arm's median; "
            f"steal and pressure by {self.least:g} s at least"
        )


RULE = BurstRule()
_PRESSURES = ("psi_cpu", "psi_io", "psi_memory")


def find_bursts(samples: Sequence[Sample], rule: BurstRule = RULE) -> dict[tuple[str, str, int], str]:
    """Reasons by (arm, point, block), for measured runs that succeeded. Repetitions are not judged again."""
    runs = [item for item in samples if item.kind == "measured" and item.status == "ok" and item.repeats is None]
    spins = [value for item in runs for value in (item.calibration_before, item.calibration_after) if value]
    usual_spin = median(spins) if spins else None
    usual = _usual_pressure(runs)
    found = {}
    for item in runs:
        reasons = list(_reasons(item, rule, usual_spin, usual))
        if reasons:
            found[item.arm, item.point, item.block] = "; ".join(reasons)
    return found


def _reasons(
    run: Sample, rule: BurstRule, usual_spin: float | None, usual: dict[tuple[str, str, str], float]
) -> Iterable[str]:
    phase = total(run.phases)
    if phase.steal and phase.real and phase.steal > max(rule.steal * phase.real, rule.least):
        yield f"steal {phase.steal / phase.real:.0%}"
    for when, spin in (("before", run.calibration_before), ("after", run.calibration_after)):
        if spin and usual_spin and spin / usual_spin - 1 > rule.calibration:
            yield f"calibration {when} it +{spin / usual_spin - 1:.0%}"
    for name in _PRESSURES:
        share = _share(run, name)
        excess = share - usual[run.arm, run.point, name] if share is not None else 0.0
        if excess > rule.pressure and excess * (phase.real or 0.0) > rule.least:
            yield f"{name.removeprefix('psi_')} pressure {share:.0%}"


def _usual_pressure(runs: Sequence[Sample]) -> dict[tuple[str, str, str], float]:
    shares: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        for name in _PRESSURES:
            share = _share(run, name)
            if share is not None:
                shares.setdefault((run.arm, run.point, name), []).append(share)
    return {key: median(values) for key, values in shares.items()}


def _share(run: Sample, name: str) -> float | None:
    phase = total(run.phases)
    waited = phase.metric(name)
    return waited / phase.real if waited is not None and phase.real else None
