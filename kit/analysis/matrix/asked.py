"""Weights and prices of a matrix as users write them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kit.analysis.matrix.cost import Price
from kit.core.errors import UsageError


def parse_weights(given: Sequence[str], option: str) -> dict[str, float]:
    """Return the weights of ``SCENARIO=N``. ``option`` names them in errors. Raises UsageError."""
    found = {}
    for item in given:
        name, _, text = item.rpartition("=")  # a command's title may have one, too
        if not name:
            raise UsageError(f"{option} {item}: not NAME=N", f"use for example {option} kernel=3")
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text):
            raise UsageError(f"{option} {name}={text}: not a weight", f"use a number from 0 on: {option} {name}=3")
        found[name] = float(text)
    return found


def parse_price(price: str, builds: str, prefix: str) -> Price | None:
    """Return the price of ``0.34/h`` and ``400/day``; None without both. ``prefix``: of their names in errors. Raises
    UsageError."""
    if bool(price) != bool(builds):
        raise UsageError(f"{prefix}price and {prefix}builds need each other",
                         f"use for example {prefix}price 0.34/h {prefix}builds 400/day")  # fmt: skip
    if not price:
        return None
    return Price(_rate(price, "h", f"{prefix}price", "0.34/h"), _rate(builds, "day", f"{prefix}builds", "400/day"))


def _rate(text: str, per: str, option: str, example: str) -> float:
    match = re.fullmatch(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)(?:/{per})?", text.strip())
    if not match or not float(match[1]):
        raise UsageError(f"{option} {text}: not a number per {per}", f"use for example {option} {example}")
    return float(match[1])
