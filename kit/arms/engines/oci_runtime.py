"""OCI runtimes: the programs by which an engine starts a container (opencontainers/runtime-spec)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.arms.engines.engine import Blocker
from kit.arms.image.layout import CONTROL
from kit.arms.probe import Probe
from kit.core.errors import MORE_ROOM, MachineError, RunError
from kit.host.command import install_fix, require, which
from kit.model.arm import OCI_RUNTIMES, RUNTIME, Arm


@dataclass(frozen=True)
class OciRuntime:
    """``words``: its options. ``own_kernel``: whether the container has a kernel of its own, with its own clock."""

    name: str
    words: tuple[str, ...] = ()
    own_kernel: bool = False


#: The program that engines call if they are told no other.
RUNC = "runc"
#: Options with which gVisor runs an arm, by their names: the values that do.
_SUITABLE = {"host-uds": ("open", "all"), "overlay2": ("none",)}
#: gVisor connects to the probe's socket only with the first option. With the second, what the container writes reaches
#: the driver: some versions keep it in a file or in memory otherwise. The third is what containers of the kit have, a
#: loopback interface alone; without it, Debian 12's version refuses network namespaces of Linux 6.18 as the machine's.
_RUNSC = OciRuntime("runsc", ("--host-uds=open", "--overlay2=none", "--network=none"), own_kernel=True)
RUNTIMES = {**{name: OciRuntime(name) for name in OCI_RUNTIMES}, _RUNSC.name: _RUNSC}


def write_program(directory: Path, name: str, command: str) -> Path:
    """Write a program that an engine calls as OCI runtime: a shell script."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
    return path


def installed_runtimes(directory: Path) -> dict[str, str]:
    """Return the programs of the host's runtimes by name. Those with options are written to the directory."""
    programs = {}
    for runtime in RUNTIMES.values():
        program = which(runtime.name)
        if program and runtime.words:
            words = shlex.join((program, *runtime.words))
            program = str(write_program(directory, f"kit-{runtime.name}", f'exec {words} "$@"'))
        if program:
            programs[runtime.name] = program
    return programs


def only_crun() -> str:
    """Return the path of crun where it is the machine's only runtime, as on Fedora, Arch and Alpine with Podman; else
    ''."""
    return "" if which(RUNC) else which("crun") or ""


def named_runc(crun: str, run: Path) -> Path:
    """Return a directory in which crun has the name of the program that engines call: the two have one command line."""
    directory = run / "only-crun"
    directory.mkdir(exist_ok=True)
    if not (directory / RUNC).is_symlink():
        (directory / RUNC).symlink_to(crun)
    return directory


def oci_runtime() -> str:
    """Return the runtime of Podman and Buildah: Docker's if it exists, then they differ only in the engine."""
    return "crun" if only_crun() else RUNC


def runtime_of(arm: Arm) -> OciRuntime | None:
    """Return the runtime that an arm names; None without one: it has the engine's own."""
    return RUNTIMES.get(arm.option(RUNTIME))


def runtime_blocker(arm: Arm, versioned: bool, programs: Path | None = None) -> Blocker | None:
    """Return why the arm can't have its runtime; None if it can, as far as is known before a container starts.
    ``versioned``: the engine is in a root of its own, with runc. ``programs``: the directory of a Docker that the user
    names, maybe with runc."""
    runtime = runtime_of(arm)
    if runtime is None:
        return None
    if versioned and runtime.name != RUNC:
        engine = arm.engine.partition("@")[0]
        return Blocker(f"the root of {arm.engine} has no {runtime.name}", f"use {engine} without a version")
    if blocked := _kernel_blocker(arm, runtime):
        return blocked
    if runtime.name == RUNC and (versioned or (programs and (programs / RUNC).exists())):
        return None
    try:
        require(runtime.name)
    except MachineError as error:
        return Blocker(error.message, error.hint)
    return None


def _kernel_blocker(arm: Arm, runtime: OciRuntime) -> Blocker | None:
    """Return why a kernel of its own is not possible in the arm; None if it is."""
    if runtime.own_kernel and arm.placement == "tmpfs":
        return Blocker(
            f"{runtime.name} keeps a tmpfs inside the container, where the kit can't put sources", "use layer or bind"
        )
    if runtime.own_kernel and (arm.rootless or arm.option("cgroup") == "none"):
        return Blocker(
            f"the kit can't move the processes of {runtime.name} to another control group",
            "leave out +cgroup=none and +userns=rootless",
        )
    return None


def registered_blocker(arm: Arm, registered: Mapping[str, Any]) -> Blocker | None:
    """Return why the running Docker does not have the arm's runtime; None if it has. ``registered``: its runtimes, as
    its API shows them."""
    runtime = runtime_of(arm)
    if runtime is None:
        return None
    if blocked := _kernel_blocker(arm, runtime):
        return blocked
    if runtime.name not in registered:
        registered_options = ", ".join(f"+{RUNTIME}={name}" for name in OCI_RUNTIMES if name in registered)
        reason = f"the running Docker has no runtime {runtime.name}"
        return Blocker(reason, f"use {registered_options}, or add it to its daemon.json")
    words = registered[runtime.name].get("runtimeArgs") or ()
    runtime_options = {name: value for name, _, value in (word.lstrip("-").partition("=") for word in words)}
    if runtime.own_kernel and any(runtime_options.get(name) not in values for name, values in _SUITABLE.items()):
        needed = [f"--{name}={values[0]}" for name, values in _SUITABLE.items()]
        entry = {runtime.name: {"path": which(runtime.name) or f"/usr/bin/{runtime.name}", "runtimeArgs": needed}}
        return Blocker(
            f"the running Docker starts {runtime.name} without {' '.join(needed)}",
            f'set in its daemon.json "runtimes": {json.dumps(entry)}',
        )
    return None


@contextmanager
def runtime_errors(arm: Arm) -> Iterator[None]:
    """Name the fix for a runtime that refuses to start a container here. Raises RunError."""
    try:
        yield
    except RunError as error:
        runtime = runtime_of(arm)
        if error.hint == MORE_ROOM or (runtime.name == RUNC if runtime else not only_crun()):
            raise
        cgroups = "cgroup" in error.message.partition(": ")[2]
        boot = ", or boot with cgroup v2 alone: systemd.unified_cgroup_hierarchy=1" if cgroups else ""
        runc = f"{RUNC}: {install_fix(RUNC, RUNC)}" if only_crun() else f"+{RUNTIME}={RUNC}"
        raise RunError(error.message.removeprefix(f"{arm}: "), f"use {runc}{boot}") from None


def meet_kernel(arm: Arm, probe: Probe) -> None:
    """Let the probe of a container with a kernel of its own learn of it. Raises RunError."""
    runtime = runtime_of(arm)
    if runtime and runtime.own_kernel:
        probe.meet_kernel(f"{CONTROL}/kit-probe")
