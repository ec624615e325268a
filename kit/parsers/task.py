"""Tasks of a build: what the build tool itself has timed, beside the phase that the kit times as a whole. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.codec import Amount, Finite


@dataclass(frozen=True)
class BuildTask:
    """One task of one run. Times are seconds, sizes bytes; None is 'not recorded'. CPU includes what it waited for."""

    kind: str  # compile, for example
    recipe: str  # zip-native, for example
    started: Finite  # from the phase's start
    elapsed: Amount
    user: Amount | None = None
    sys: Amount | None = None
    read_bytes: Amount | None = None
    write_bytes: Amount | None = None

    @property
    def cpu(self) -> float | None:
        return None if self.user is None or self.sys is None else self.user + self.sys
