"""Tasks of a build: what the build tool itself has timed, beside the phase that the kit times as a whole. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.codec import Amount, Finite


@dataclass(frozen=True)
class BuildTask:
    """One task of one run, ``kind`` (compile) of ``recipe`` (zip-native). Times are seconds, sizes bytes; None is 'not
    recorded'. ``started`` counts from the phase's start. CPU is that of the task's process and of all it waited for.
    """

    kind: str
    recipe: str
    started: Finite
    elapsed: Amount
    user: Amount | None = None
    sys: Amount | None = None
    read_bytes: Amount | None = None
    write_bytes: Amount | None = None

    @property
    def cpu(self) -> float | None:
        return None if self.user is None or self.sys is None else self.user + self.sys
