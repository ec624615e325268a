"""The name of a session's machine in lists."""

from __future__ import annotations

from collections.abc import Mapping

from kit.core.listing import listed
from kit.model.fact import MACHINE, SEVERAL, WORKER

#: Number of machines named for a session that several shared.
_NAMED = 2


def machine_name(facts: Mapping[str, str]) -> str:
    """Return the fleet's name of the machine, else its id; ``b1, b2 and 6 more`` for several."""
    return listed(WORKER.text(facts, MACHINE.text(facts)).split(SEVERAL), _NAMED, SEVERAL)
