"""How many machines and rounds: the plan keeps its promise when it is carried out, and costs no more than it must."""

import math
from dataclasses import replace

import numpy as np
import pytest

from kit.analysis.fleet.cost import FleetRatio, MachineRatio, over_machines
from kit.analysis.fleet.plan import Cost, FleetPlan, Variances, cost_of, find_plan, find_variances, plan_fleet
from kit.analysis.stats.estimators import Floats, Interval, student_quantile
from kit.analysis.stats.random_effects import Effects, fit
from kit.model.fact import ROUNDS_OF, stored
from tests.nights import night

TAU, SIGMA, REACH = 0.02, 0.03, math.log1p(0.01)
COST = Cost(600, 300)


def known(tau: float, sigma: float) -> Variances:
    """As if both were known."""
    return Variances("layer:overlay2", np.full(2, tau**2), np.full(2, sigma**2), tau**2, sigma**2)


def measured(dice: np.random.Generator, machines: int, rounds: int) -> FleetRatio:
    y = dice.normal(0, TAU, machines) + dice.normal(0, SIGMA / rounds**0.5, machines)
    v = SIGMA**2 / rounds * dice.chisquare(rounds - 1, machines) / (rounds - 1)
    return over_machines([
        MachineRatio(f"m{i}", "", f"s{i}", Interval(math.exp(y[i]), None, None, rounds), v[i], rounds - 1)
        for i in range(machines)
    ])  # fmt: skip


def halves(plan: FleetPlan, fleets: int = 2000) -> Floats:
    """Half widths of the mean's interval, where the plan is carried out."""
    dice = np.random.default_rng(7)
    size = fleets, plan.machines
    y = dice.normal(0, TAU, size) + dice.normal(0, SIGMA / plan.rounds**0.5, size)
    d = np.full(plan.machines, plan.rounds - 1.0)
    v = SIGMA**2 / plan.rounds * dice.chisquare(d, size) / d
    half: Floats = student_quantile(0.975, plan.machines - 1) * fit(Effects(y, v, d)).error
    return half


def test_of_known_variances_the_plan_reaches_what_it_promises() -> None:
    for chance in (0.5, 0.8, 0.95):
        plan = find_plan([known(TAU, SIGMA)], COST, REACH, chance)
        assert plan and chance <= plan.chance < chance + 0.05
        reached = halves(plan) <= REACH
        assert reached.mean() == pytest.approx(plan.chance, abs=0.04)
        assert np.median(halves(plan)) == pytest.approx(plan.half, rel=0.05)


def test_rounds_are_those_of_cochran() -> None:
    """sqrt(set-up / round * sigma² / tau²): dear machines make more rounds, machines that differ make fewer."""
    for once, tau in ((300, 0.02), (30_000, 0.02), (3000, 0.005), (3000, 0.05)):
        plan = find_plan([known(tau, SIGMA)], Cost(once, 300), REACH)
        best = math.sqrt(once / 300) * SIGMA / tau
        assert plan and max(best / 1.7, 2) <= plan.rounds <= max(best * 1.7, 3)


def test_plans_from_few_machines_allow_for_what_is_not_known_and_keep_their_promise() -> None:
    """Of plans from eight machines each, four in five at least reach ±1 % when they are carried out."""
    dice = np.random.default_rng(11)
    reached, machines = [], []
    for _ in range(20):
        made = find_variances("x", measured(dice, 8, 5))
        assert made
        plan = find_plan([made], COST, REACH)
        if plan and plan.machines < 200:
            reached.append(float((halves(plan, 100) <= REACH).mean()))
            machines.append(plan.machines)
    sure = find_plan([known(TAU, SIGMA)], COST, REACH)
    assert sure and len(reached) > 12
    assert 0.72 < np.mean(reached) < 0.97 and np.median(machines) > sure.machines


def test_the_worst_arm_decides() -> None:
    one, two = known(0.01, SIGMA), known(0.03, SIGMA)
    assert find_plan([one, two], COST, REACH) == find_plan([two], COST, REACH)


def test_machines_that_differ_too_much_are_no_plan() -> None:
    assert find_plan([known(0.05, SIGMA)], COST, REACH, most=20) is None


def test_a_planning_says_what_it_can_and_cannot() -> None:
    dice = np.random.default_rng(3)
    good = measured(dice, 6, 5)
    one = over_machines([replace(item, variance=None) for item in good.machines])
    made = plan_fleet("kernel", [("a", good), ("b", one)], COST, 0.02)
    assert made.sure and made.even and made.sure.machines >= made.even.machines
    assert made.without == ("b",) and made.machines == 6
    assert plan_fleet("kernel", [("b", one)], COST, 0.02).sure is None


def test_what_a_round_costs_is_read_from_sessions() -> None:
    session = night(1, 0.1)
    apart = tuple(replace(item, started=session.created + 120 + 50 * item.round) for item in session.samples)
    assert cost_of([replace(session, samples=apart)]) == Cost(170, 50)
    assert cost_of([replace(session, samples=())]) is None


def test_of_a_session_that_machines_shared_a_round_is_timed_on_its_machine() -> None:
    """Two machines make rounds at once, of 50 seconds each, one of them three seconds after the other."""
    session = night(1, 0.1)
    facts = stored([ROUNDS_OF.fact("1, 3", "one"), ROUNDS_OF.fact("2, 4", "two")])
    begins = {1: 100, 3: 150, 2: 103, 4: 153}
    apart = tuple(replace(item, started=session.created + begins[item.round]) for item in session.samples)
    assert cost_of([replace(session, samples=apart, facts={**session.facts, **facts})]) == Cost(101.5, 50)
