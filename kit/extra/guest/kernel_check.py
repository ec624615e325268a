"""Tests what containers and storage drivers need of a guest's kernel, before the session starts."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence

from kit.core.errors import MachineError
from kit.core.paths import Paths
from kit.host.assumptions import ASSUMPTIONS, CONTAINER, Unmet, unmet
from kit.host.kernel_part import LOOP, require_part
from kit.model.arm import Arm, driver_of
from kit.model.drivers import KernelPart

#: Assumptions that containers can do without, but that change how they run on a host.
_USUAL = ("seccomp", "controllers")


def lacking(arms: Sequence[Arm], paths: Paths) -> Iterator[str]:
    """Return one sentence for each missing feature of the kernel. Raises MachineError if no container can run."""
    guest = f"the guest's kernel {platform.release()}"
    if not _has(LOOP):
        raise MachineError(f"{guest} has no {LOOP.called}", "build it in: kit kernel --help")
    if any(arm.contained for arm in arms):
        for _, missing in unmet(CONTAINER, paths):
            raise MachineError(
                f"{guest}: {missing.reason}",
                f"use arms without a container (bare,union:overlay), or {missing.fix}: kit kernel --help",
            )
        for assumption in ASSUMPTIONS:
            if assumption.name in _USUAL and isinstance(answer := assumption.probe(paths), Unmet):
                yield f"{guest}: {answer.reason}"
    yield from drivers_lacking(arms)


def drivers_lacking(arms: Sequence[Arm]) -> Iterator[str]:
    """Return the same for the requirements of drivers."""
    for name, part in {part.driver: driver_of(part).kernel for arm in arms for part in arm.parts}.items():
        if part and not _has(part):
            yield f"the guest's kernel {platform.release()} has no {part.called}: arms on {name} will not run"


def _has(part: KernelPart) -> bool:
    try:
        require_part(part)
    except MachineError:
        return False
    return True
