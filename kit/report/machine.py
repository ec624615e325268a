"""What the machine of a session is called in lists."""

from __future__ import annotations

from collections.abc import Mapping

from kit.analysis.history import SEVERAL
from kit.core.listing import listed
from kit.model.fact import MACHINE, WORKER

#: Of a session that several have shared so many are named.
_NAMED = 2


def machine_name(facts: Mapping[str, str]) -> str:
    """As its fleet calls it, else its id; ``b1, b2 and 6 more`` of several."""
    return listed(WORKER.text(facts, MACHINE.text(facts)).split(SEVERAL), _NAMED, SEVERAL)
