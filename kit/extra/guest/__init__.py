"""Guest kernels: virtual machines that run a whole session if the running kernel lacks a driver.

This package also has the kernels, their recipes and their builds. Imports session, arms, host, model and core."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from pathlib import Path

from kit.core.errors import UsageError
from kit.extra.guest.kernel import machine_of
from kit.extra.guest.machine import Boot, Disk, Kernel, Machine, Tools

#: The kinds of guests, imported on use.
MACHINES = {
    "uml": "kit.extra.guest.uml:UserModeLinux",
    "qemu": "kit.extra.guest.qemu:Qemu",
}
#: Let the kit choose the kind.
AUTO = "auto"


def make_machine(kind: str, tools: Tools, kernel: Path | None, modules: Path | None) -> Machine:
    """Return the guest's class. ``kind`` AUTO: QEMU if a test boot shows that KVM is usable, else User-Mode Linux; a
    given kernel decides by its type. Raises UsageError, MachineError."""
    if kind == AUTO:
        kind = machine_of(kernel) if kernel else "qemu" if _make("qemu", tools, None, None).accelerated() else "uml"
    elif kernel and machine_of(kernel) != kind:
        raise UsageError(f"{kernel} is not a kernel for {kind}", f"use --guest {machine_of(kernel)}, or another kernel")
    return _make(kind, tools, kernel, modules)


def _make(kind: str, tools: Tools, kernel: Path | None, modules: Path | None) -> Machine:
    maker: Callable[..., Machine] = pkgutil.resolve_name(MACHINES[kind])
    return maker(tools, Kernel(kernel, modules))


__all__ = ["AUTO", "MACHINES", "Boot", "Disk", "Kernel", "Machine", "Tools", "make_machine"]
