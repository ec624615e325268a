"""How close can a fleet's interval for another machine be to 95 % where machines do not differ at all?

    python benchmarks/proofs/prediction.py [--machines 3,5,10,20,50]

Machines of known, equal noise, the best case: mean and squares are all that figures tell. Of all ways to make an
interval about the mean from the squares that is never narrower than the mean's own, also such as nobody would use, the
one is sought that covers least where tau is 0, and at least 95 % (93 %) wherever tau is 0.05 to 5 times the noise of a
machine's figure: a linear program, over bins of the squares and widths for each. No way covers less. Beside it, exact
but for the same bins: what the kit's covers at 0, and its least, with the tau of that.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.optimize import linprog
from scipy.special import chdtr, chdtri, ndtr

from kit.analysis.stats.estimators import Floats, student_quantile
from kit.extra.fleet.analysis.random_effects import ENDS, Effects, draw

#: In standard errors of a machine's figure.
TAUS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 5)
LEVELS = (0.95, 0.93)
_BINS = 120
#: Half widths that are tried, as multiples of the mean's.
_WIDTHS = np.concatenate([[1], np.geomspace(1.03, 60, 90)])
_KNOWN = 1e7


class Figures:
    """Bins of the mean square of so many machines, where the noise of each has the variance 1."""

    def __init__(self, machines: int) -> None:
        self.machines, self._d = machines, machines - 1
        least, most = (chdtri(self._d, tail) / self._d for tail in (0.999, 0.0001))
        self._edges = np.concatenate([[0], np.geomspace(least, most * (1 + max(TAUS) ** 2), _BINS - 1), [np.inf]])
        inner = np.sqrt(self._edges[1:-2] * self._edges[2:-1])
        self.squares = np.concatenate([[least / 2], inner, [1.1 * self._edges[-2]]])
        self.narrowest = student_quantile(ENDS[1], self._d) * np.sqrt(self.squares / machines)

    def covers(self, half: Floats, tau: float) -> Floats:
        """The part that each bin gives to how often intervals of these half widths hold; bins on the first axis."""
        shares = np.diff(chdtr(self._d, self._edges * self._d / (1 + tau**2)))
        error = np.sqrt(tau**2 + (1 + tau**2) / self.machines)
        found: Floats = (2 * ndtr(half / error) - 1) * (shares[:, None] if half.ndim > 1 else shares)
        return found


def least_at_none(figures: Figures, level: float) -> float:
    """The smallest coverage at tau 0 of any way that covers ``level`` at all others."""
    half = figures.narrowest[:, None] * _WIDTHS
    others = np.array([-figures.covers(half, tau).ravel() for tau in TAUS[1:]])
    one_each = np.kron(np.eye(_BINS), np.ones(len(_WIDTHS)))
    found = linprog(figures.covers(half, 0.0).ravel(), others, np.full(len(others), -level), one_each, np.ones(_BINS))
    if found.fun is None:
        raise SystemExit(found.message)
    return float(found.fun)


def of_the_kit(figures: Figures) -> list[float]:
    """How often its interval holds, for each tau."""
    shape = np.linspace(-1, 1, figures.machines)
    y = np.sqrt(figures.squares)[:, None] * shape / shape.std(ddof=1)
    known = np.full(figures.machines, _KNOWN)
    low, high = np.quantile(draw(Effects(y, np.ones_like(y), known, shared=True), 4000).another, ENDS, axis=-1)
    return [float(figures.covers((high - low) / 2, tau).sum()) for tau in TAUS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", default="3,5,10,20,50")
    for machines in map(int, parser.parse_args().machines.split(",")):
        figures = Figures(machines)
        least = ", ".join(f"{least_at_none(figures, level):.1%} ({level:.0%} elsewhere)" for level in LEVELS)
        kit = of_the_kit(figures)
        worst = int(np.argmin(kit))
        print(f"{machines} machines: where none differs at least {least}; the kit's {kit[0]:.1%}, "
              f"its least {kit[worst]:.1%} (tau {TAUS[worst]:g} of the noise)", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
