"""Guests as places where a session runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.core.paths import find_paths
from kit.extra.guest import AUTO, MACHINES, Machine, Tools, make_machine
from kit.extra.guest.session_kernel import kernel_ahead
from kit.model.arm import Arm
from kit.model.session import Request, Session
from kit.session.execute.materials import Materials
from kit.session.measure.context import MachineLease
from kit.session.place import Places
from kit.session.prepared import SessionContext


@dataclass(frozen=True)
class GuestPlace:
    """A guest that is not booted yet."""

    machine: Machine

    @property
    def kind(self) -> str:
        return self.machine.kind

    def cores(self, wanted: int) -> int:
        return self.machine.cores(wanted)

    def visit(
        self, session: Session, context: SessionContext, lease: MachineLease, materials: Materials
    ) -> Session:  # fmt: skip
        from kit.extra.guest.host import visit

        return visit(session, context, lease, materials, self.machine)


def find(request: Request, cache: Path, tell: Callable[[str], None]) -> GuestPlace:
    kernel, modules = (Path(text).absolute() if text else None for text in (request.kernel, request.modules))
    return GuestPlace(make_machine(request.guest, Tools(cache, tell), kernel, modules))


def cores(request: Request, here: int) -> int:
    """Return the cores of the guest. An unnamed one is QEMU's if KVM may be usable."""
    kernel = Path(request.kernel) if request.kernel else None
    unknown = request.guest == AUTO and not kernel and Path("/dev/kvm").exists()
    machine = make_machine("qemu" if unknown else request.guest, Tools(find_paths().cache), kernel, None)
    return machine.cores(request.guest_cores or here)


def ahead(request: Request, arms: Sequence[Arm], cache: Path) -> list[str]:
    kinds = tuple(MACHINES) if request.guest == AUTO else (request.guest,)
    return kernel_ahead(arms, kinds, cache)


PLACES = Places(find, cores, ahead)
