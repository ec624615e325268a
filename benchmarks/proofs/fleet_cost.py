"""Do a fleet's intervals hold? Simulated machines, of which the kit is told what their sessions would tell it.

    python benchmarks/proofs/fleet_cost.py [--fleets 4000] [--draws 1000] [--machines 3,5,10,50]
        [--noise 'equal;unequal;one noisy']

Fleets whose machines' true penalties scatter by 0, 2 and 5 % (tau), three or five rounds each; noise of a round 3 % on
every machine, of sizes that differ (0.5 as logarithm), or 15 % on one; and one session's rounds split over like
machines. Variances are estimates with the degrees of freedom that a session has. Printed for each: how often the 95 %
interval of the mean holds the true mean and that of another machine the truth of one, with half widths, how often that
of tau holds tau, what tau is said to be, and how often a machine is said not to fit where all do; and how often the
usual ways would have held: the mean with variances taken for known (Hartung, Knapp, Sidik, Jonkman; with the factor
that is at least 1), by Student's t without weights, with all rounds taken for independent, and the prediction of
Higgins, Thompson and Spiegelhalter. The last lines say which cells are out of bounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kit.analysis.stats.estimators import Floats, student_quantile
from kit.extra.fleet.analysis.cost import MISFIT_LEVEL
from kit.extra.fleet.analysis.random_effects import ENDS, Effects, draw, find_chances, fit

MACHINES, TAUS, ROUND = (3, 5, 10, 50), (0.0, 0.02, 0.05), 0.03
#: Rounds, and degrees of freedom of a session's error: its own, and with what its arms lend each other.
SESSIONS = ((3, 2), (3, 4), (5, 6))
LOW, HIGH = 0.93, 0.97
_VALUES = 4_000_000

Dice = np.random.Generator
Noise = Callable[[Dice, tuple[int, int]], Floats]


def _equal(rng: Dice, size: tuple[int, int]) -> Floats:
    return np.full(size, ROUND)


def _unequal(rng: Dice, size: tuple[int, int]) -> Floats:
    made: Floats = ROUND * np.exp(rng.normal(0, 0.5, size))
    return made


def _one_noisy(rng: Dice, size: tuple[int, int]) -> Floats:
    made = _equal(rng, size)
    made[:, 0] *= 5
    return made


NOISE: dict[str, Noise] = {"equal": _equal, "unequal": _unequal, "one noisy": _one_noisy}
SPLIT = "split"


@dataclass(frozen=True)
class World:
    """``d``: degrees of freedom of each machine's variance."""

    noise: str
    machines: int
    tau: float
    rounds: int
    d: int

    def __str__(self) -> str:
        return f"{self.noise}, {self.machines} machines, tau {self.tau:.0%}, {self.rounds} rounds ({self.d})"


@dataclass(frozen=True)
class Farms:
    """What the machines of many fleets say, and the rounds of those that were split. The true mean is 0."""

    figures: Effects
    logs: Floats | None = None

    def part(self, rows: slice) -> Effects:
        return replace(self.figures, y=self.figures.y[rows], v=self.figures.v[rows])


def play(world: World, fleets: int, rng: Dice) -> Farms:
    size = fleets, world.machines
    truth = world.tau * rng.normal(0, 1, size)
    if world.noise == SPLIT:
        logs = truth[..., None] + ROUND * rng.normal(0, 1, (*size, world.rounds))
        within = logs.var(axis=-1, ddof=1).mean(axis=-1, keepdims=True) / world.rounds
        d = np.full(world.machines, world.machines * (world.rounds - 1.0))
        return Farms(Effects(logs.mean(axis=-1), np.broadcast_to(within, size), d, shared=True), logs)
    sigma = NOISE[world.noise](rng, size) / world.rounds**0.5
    v = sigma**2 * rng.chisquare(world.d, size) / world.d
    return Farms(Effects(truth + sigma * rng.normal(0, 1, size), v, np.full(world.machines, float(world.d))))


@dataclass(frozen=True)
class Told:
    """Of many fleets: the share whose interval holds, of the mean, of another machine, of tau; half widths (log); tau
    as it is said to be, typically; the share in which a machine is said not to fit; the share that other ways hold."""

    mean: float
    mean_half: float
    another: float
    another_half: float
    tau: float
    said: float
    outlier: float
    others: dict[str, float]


def judge(world: World, fleets: Farms, rng: Dice, draws: int) -> Told:
    figures, machines = fleets.figures, world.machines
    found = fit(figures)
    half = student_quantile(ENDS[1], machines - 1) * found.error
    truth = world.tau * rng.normal(0, 1, found.mean.shape)
    low, high, least, most = np.concatenate(list(_drawn(fleets, draws)), axis=-1)
    few = fleets.part(slice(max(1, _VALUES // machines**2 // 4)))  # each is looked at without each of its machines
    wrong = find_chances(few).min(axis=-1) < MISFIT_LEVEL if machines > 3 else np.zeros(1)
    return Told(
        _share(np.abs(found.mean) <= half), float(np.median(half)),
        _share((low <= truth) & (truth <= high)), float(np.median(high - low)) / 2,
        _share((least <= world.tau**2) & (world.tau**2 <= most)), float(np.median(np.sqrt(found.tau2))),
        _share(wrong), _others(fleets, truth),
    )  # fmt: skip


def _share(held: Floats | NDArray[np.bool_]) -> float:
    return float(np.mean(held))


def _drawn(fleets: Farms, draws: int) -> Iterator[Floats]:
    """The ends of what another machine may be and of tau², for as many fleets at a time as fit."""
    count = fleets.figures.y.shape[0]
    step = max(1, _VALUES // draws)
    for start in range(0, count, step):
        made = draw(fleets.part(slice(start, start + step)), draws)
        yield np.concatenate([np.quantile(made.another, ENDS, axis=-1), np.quantile(made.tau2, ENDS, axis=-1)])


def _others(fleets: Farms, truth: Floats) -> dict[str, float]:
    y, v = fleets.figures.y, fleets.figures.v
    machines = y.shape[-1]
    t = student_quantile(ENDS[1], machines - 1)
    tau2 = paule_mandel(y, v)
    w = 1 / (v + tau2[..., None])
    mean, known = (w * y).sum(-1) / w.sum(-1), np.sqrt(1 / w.sum(-1))
    factor = np.sqrt((w * (y - mean[..., None]) ** 2).sum(-1) / (machines - 1))
    reach = student_quantile(ENDS[1], max(machines - 2, 1)) * np.sqrt(tau2 + known**2)
    found = {
        "HKSJ": _share(np.abs(mean) <= t * known * factor),
        "max(1, q)": _share(np.abs(mean) <= t * known * np.maximum(factor, 1)),
        "t": _share(np.abs(y.mean(-1)) <= t * y.std(-1, ddof=1) / machines**0.5),
        "HTS": _share(np.abs(truth - mean) <= reach),
    }
    if fleets.logs is not None:
        flat = fleets.logs.reshape(y.shape[0], -1)
        n = flat.shape[-1]
        naive = student_quantile(ENDS[1], n - 1) * flat.std(-1, ddof=1) / n**0.5
        found["independent"] = _share(np.abs(flat.mean(-1)) <= naive)
    return found


def paule_mandel(y: Floats, v: Floats) -> Floats:
    """tau² at which the weighted squares are as many as the machines less 1, variances taken for known (1982), by
    Newton's method from 0 (DerSimonian and Kacker 2007)."""
    found = np.zeros(y.shape[:-1])
    for _ in range(60):
        w = 1 / (v + found[..., None])
        squares = w * (y - ((w * y).sum(-1) / w.sum(-1))[..., None]) ** 2
        found = np.maximum(found + (squares.sum(-1) - y.shape[-1] + 1) / (w * squares).sum(-1), 0.0)
    return found


_HEAD = (
    f"{'':44}{'mean':>13}{'another':>13}{'tau':>12}{'wrong':>7} | other ways\n"
    f"{'':44}{'covers':>8}{'half':>5}{'covers':>8}{'half':>5}{'covers':>7}{'said':>5}{'outlier':>7} |"
)


def show(world: World, told: Told) -> None:
    others = " ".join(f"{name} {share:.1%}" for name, share in told.others.items())
    print(
        f"{world!s:44}{told.mean:8.1%}{100 * told.mean_half:5.1f}{told.another:8.1%}{100 * told.another_half:5.1f}"
        f"{told.tau:7.1%}{100 * told.said:5.1f}{told.outlier:7.1%} | {others}",
        flush=True,
    )


def worlds(noises: list[str], machines: list[int]) -> Iterator[World]:
    for noise in noises:
        for count in machines:
            for tau in TAUS:
                for rounds, d in SESSIONS[1:] if noise == SPLIT else SESSIONS:
                    yield World(noise, count, tau, rounds, d)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleets", type=int, default=4000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--machines", default=",".join(map(str, MACHINES)))
    parser.add_argument("--noise", default=";".join([*NOISE, SPLIT]), help="separated by ';'")
    arguments = parser.parse_args()
    chance = (0.05 * 0.95 / arguments.fleets) ** 0.5
    print(
        f"{arguments.fleets} fleets each: a share of 95 % has a standard error of {chance:.2%}; half widths in percent"
    )
    print(_HEAD)
    out: dict[str, list[World]] = {}
    for number, world in enumerate(worlds(arguments.noise.split(";"), list(map(int, arguments.machines.split(","))))):
        rng = np.random.default_rng(number)
        told = judge(world, play(world, arguments.fleets, rng), rng, arguments.draws)
        show(world, told)
        for name, share in (("mean", told.mean), ("another machine", told.another)):
            for what, wrong in ((f"{name} below 93 %", share < LOW - 3 * chance),
                                (f"{name} above 97 %", share > HIGH + 3 * chance)):  # fmt: skip
                if wrong:
                    out.setdefault(what, []).append(world)
    for what, found in out.items():
        print(f"{what}: {'; '.join(map(str, found))}")
    low = sum(len(found) for what, found in out.items() if "below" in what)
    print(f"{low} cells OUT OF bounds: coverage below 93 %, three standard errors allowed for")
    sys.exit(low > 0)


if __name__ == "__main__":
    main()
