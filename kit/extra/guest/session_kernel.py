"""Guest kernels of the kit's recipes: fetches their sources, and gives a session the kernel that it needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from kit.core.errors import MachineError, UnavailableError
from kit.extra.guest import Machine, Tools, make_machine
from kit.extra.guest.kernel_cache import BuiltKernel, KernelCache, PatchSource
from kit.extra.guest.recipe import read_kernel_recipe
from kit.host.cache_use import mark_used
from kit.model.arm import Arm, driver_of
from kit.model.fact import KERNEL
from kit.model.scenario import Input
from kit.model.session import Session
from kit.session.inputs.sources import prepare_input


def build_kernel(
    name: str, machine: str, source: str, cache: Path, tell: Callable[[str], None], force: bool = False
) -> BuiltKernel:
    """Return the kernel of a recipe, with patches from ``source``: a directory, a tarball, ``git:URL#BRANCH``, or ''
    for the recipe's own. Raises UsageError, MachineError, RunError."""
    recipe = read_kernel_recipe(name)
    if os.geteuid() != 0:
        raise MachineError("building a kernel needs root", "run as root: sudo kit …")
    origin = source or recipe.source
    try:
        # Named by its content, so that the same patches from another source give the same kernel.
        patches = prepare_input(Input(f"kernel-{name}", origin, into="directory", exclude=(".git/*",)), cache, tell)
    except UnavailableError as error:
        fix = f"run kit kernel build {name} --for {machine} --source DIRECTORY|TARBALL, with what {recipe.source} has"
        raise UnavailableError(f"the patches of the kernel {name} can't be fetched: {error.message}", fix) from None
    return KernelCache(cache, tell).build(recipe, machine, PatchSource(patches.path, origin, patches.digest), force)


def needed_kernel(arms: Sequence[Arm]) -> str:
    """Return the recipe of the kernel that a driver of these arms needs in a guest; '' if no driver needs one."""
    return next(filter(None, (driver_of(part).guest_kernel for arm in arms for part in arm.parts)), "")


def kernel_ahead(arms: Sequence[Arm], kinds: Sequence[str], cache: Path) -> list[str]:
    """Return lines on the kernel with which a guest of each of these kinds would run these arms; none if any kernel
    would."""
    name = needed_kernel(arms)
    lines = []
    for kind in kinds if name else ():
        built = KernelCache(cache).find(name, kind)
        lines += [f"the guest's kernel for {kind}: {built.release}, the kit's {name}"] if built else _ahead(name, kind)
    return lines


def _ahead(name: str, kind: str) -> list[str]:
    minutes = read_kernel_recipe(name).machine(kind).minutes
    return [
        f"{name} needs a guest kernel for {kind} that is not built yet: that comes first, {minutes} min of CPU time",
        f"  to do it before: kit kernel build {name} --for {kind}",
    ]


def with_kernel(machine: Machine, session: Session, arms: Sequence[Arm], tools: Tools) -> Machine:
    """Return the machine with a kernel of the kit's recipes, if these arms need one. The kernel with which the session
    began is preferred, then the last built one, then a new one. Without its sources the machine is returned unchanged:
    then the arms that need the kernel do not run."""
    name = needed_kernel(arms)
    if session.request.kernel or not name:
        return machine
    release = KERNEL.text(session.facts, default="").partition(" ")[0]
    built = KernelCache(tools.cache).find(name, machine.kind, release)
    if built is None:
        for line in _ahead(name, machine.kind):
            tools.tell(line)
        try:
            built = build_kernel(name, machine.kind, "", tools.cache, tools.tell)
        except UnavailableError as error:
            tools.tell(f"{error.message}; {name} will not run. {error.hint}")
            return machine
    mark_used(built.path.parent)
    tools.tell(f"the guest's kernel is {built.release}, the kit's {name}")
    return make_machine(machine.kind, tools, built.path, None)
