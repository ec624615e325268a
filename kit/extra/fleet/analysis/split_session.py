"""Figures of one session whose rounds ran on several machines, for all machines like them. Pure.

Rounds are nested in machines: two rounds of a machine are not independent, so the interval rests on machines."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kit.analysis.runs.compare import is_control
from kit.analysis.runs.run_table import Key, Runs
from kit.analysis.session.machines import machines_of
from kit.analysis.stats.estimators import Floats
from kit.core.errors import UsageError
from kit.extra.fleet.analysis.answer import FleetAnswer, FleetArm
from kit.extra.fleet.analysis.cost import over_machines, split_ratios
from kit.model.fact import TOGETHER, makers
from kit.model.machine import class_of
from kit.model.session import Session


def answer_split(session: Session, metric: str = "real", phase: str = "") -> FleetAnswer:
    """Return the answer for that phase, '' for the whole run, over the machines that shared the session. Raises
    UsageError if no run has the phase."""
    runs, maker_by_round = Runs(session.samples), makers(session.facts)
    for sample in session.samples:
        if sample.rerun_of is not None and sample.rerun_of in maker_by_round:  # its rerun is on the same machine
            maker_by_round.setdefault(sample.round, maker_by_round[sample.rerun_of])
    machine_class, machines = class_of(session.facts), machines_of(session)
    of_worker = {name: machine for machine, names in machines.items() for name in names}
    maker_by_round = {round_: of_worker[name] for round_, name in maker_by_round.items() if name in of_worker}
    pairs = [
        ((arm, point), (base, point))
        for point in runs.points
        for arm, base in session.baselines
        if not is_control(arm) and runs.has((arm, point)) and runs.has((base, point))
    ]
    phases = dict.fromkeys(name for pair in pairs for name in runs.phases(pair))
    if phase and phase not in phases:
        raise UsageError(f"session {session.id} has no phase '{phase}'", f"use one of: {', '.join(phases) or 'none'}")
    if phase:
        pairs = [pair for pair in pairs if phase in runs.phases(pair)]
    arms = []
    for pair in pairs:
        of = phase or runs.phases(pair)[-1]
        logs = _logs(runs, pair, of, metric, maker_by_round)
        ratios = split_ratios([(name, machine_class, session.id, values) for name, values in sorted(logs.items())])
        whole = over_machines(ratios, machine_class, len(pairs))
        arms.append(FleetArm(pair[0][0], pair[1][0], pair[0][1], of, metric, whole))
    together = tuple(
        name for names in machines.values() if len(names) > 1 or TOGETHER.key in session.facts for name in names
    )
    return FleetAnswer(session.title, tuple(arms), {machine_class: len(machines)}, shared_machine=together)


def _logs(
    runs: Runs, pair: tuple[Key, Key], phase: str, metric: str, maker_by_round: Mapping[int, str]
) -> dict[str, Floats]:
    """Return the logarithms of the ratios in the rounds of each machine."""
    places = runs.common(pair)
    values, base_values = (runs.values(key, phase, metric)[place] for key, place in zip(pair, places, strict=True))
    names = np.array([maker_by_round.get(int(round_), "") for round_ in runs.rounds(pair[0])[places[0]]])
    usable = (names != "") & (values > 0) & (base_values > 0)
    logs = np.log(values[usable] / base_values[usable])
    return {str(name): logs[names[usable] == name] for name in np.unique(names[usable])}
