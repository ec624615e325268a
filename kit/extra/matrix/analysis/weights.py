"""Weights of a matrix as users write them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kit.core.errors import UsageError


def parse_weights(arguments: Sequence[str], option: str) -> dict[str, float]:
    """Return the weights of ``SCENARIO=N``. ``option`` names them in errors. Raises UsageError."""
    weights = {}
    for argument in arguments:
        name, _, text = argument.rpartition("=")  # a command's title may have one, too
        if not name:
            raise UsageError(f"{option} {argument}: not NAME=N", f"use for example {option} kernel=3")
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text):
            raise UsageError(f"{option} {name}={text}: not a weight", f"use a number from 0 on: {option} {name}=3")
        weights[name] = float(text)
    return weights
