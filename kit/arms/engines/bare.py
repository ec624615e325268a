"""No engine: the image's root filesystem in a plain directory, entered by chroot; or the host's own, as it is."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from kit.arms.engines.backing_root import BackingRoot, unpack_tree
from kit.arms.engines.control import Control, control_directory
from kit.arms.engines.engine import Blocker, EngineConfig
from kit.arms.engines.root import in_network
from kit.arms.engines.sandbox import DEFAULT_ENV, Sandbox
from kit.arms.image.layout import CONTROL, INPUTS, TREE
from kit.arms.probe import Probe
from kit.core.errors import MachineError
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import Process, died, spawn, stop
from kit.host.machine import Host
from kit.model.arm import Arm
from kit.model.fact import Fact

#: Runs in a mount namespace of its own, so these mounts end with it. $1 root, $2 tree, $3 control, $4 inputs, then
#: pairs of a directory and its place.
_ENTER = f"""
root=$1 control=$3
[ -z "$2" ] || mount --bind "$2" "$1{TREE}"
mount --bind -o ro "$3" "$1{CONTROL}"
[ -z "$4" ] || mount --bind -o ro "$4" "$1{INPUTS}"
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount -t sysfs -o ro sysfs "$1/sys"
shift 4
while [ $# -gt 0 ]; do
    mount --bind "$1" "$root$2"
    shift 2
done
exec "$control/kit-probe" serve "$control/s" "$root"
"""


@dataclass(frozen=True)
class Entered:
    """A running probe: its control group, and why it is dead, or ''."""

    cgroup: Cgroup | None
    probe: Probe
    alive: Callable[[], str]


class BareEngine:
    def __init__(self, setting: EngineConfig) -> None:
        self.setting = setting
        self._count = 0

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        if arm.placement == "bare" and not host.root:
            return Blocker("chroot needs root", "run as root: sudo kit …, or use the arm host")
        return None

    def open(self) -> None:
        return None

    def start(self, arm: Arm, backing_root: BackingRoot) -> None:
        return None

    def fill(self, arm: Arm, backing_root: BackingRoot) -> None:
        if arm.plain_root:
            backing_root.unpack_root()

    @contextmanager
    def sandbox(self, arm: Arm, backing_root: BackingRoot) -> Iterator[Sandbox]:
        with ExitStack() as stack:
            tree = stack.enter_context(backing_root.tree())
            inside = arm.placement == "host"
            argv: Callable[[Control], list[str]] = host_argv
            if not inside:
                plain, own_directories = stack.enter_context(backing_root.used_root())
                argv = partial(chroot_argv, plain, tree, inputs=backing_root.inputs, own=own_directories)
            entered = self.enter(stack, backing_root, "bare", argv)
            yield Sandbox(
                tree=str(tree) if inside else TREE,
                inputs=str(backing_root.inputs or "") if inside else INPUTS,
                cgroup=entered.cgroup,
                backing=backing_root.backing,
                probe=entered.probe,
                unpack=partial(unpack_tree, tree),
                alive=entered.alive,
                env={**DEFAULT_ENV, "PATH": os.environ.get("PATH", DEFAULT_ENV["PATH"])}
                if inside
                else backing_root.env,
            )

    def enter(
        self, stack: ExitStack, backing_root: BackingRoot, kind: str, argv: Callable[[Control], list[str]]
    ) -> Entered:
        """Start the probe in a control group of its own, with the command that ``argv`` returns."""
        self._count += 1
        name = f"{kind}-{self._count}"
        group = self._cgroup(f"{backing_root.below(self.setting.cgroup)}/{name}")
        return start_probe(stack, self.setting, name, group, argv)

    def _cgroup(self, name: str) -> Cgroup | None:
        """Return the arm's new group. Without root none can be made: CPU figures then cover only the waited-for
        tree."""
        try:
            return Cgroup.named(name).create()
        except MachineError:
            if os.geteuid() == 0:
                raise
            return None

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        return None

    def facts(self) -> list[Fact]:
        return []

    def close(self) -> None:
        return None


def start_probe(
    stack: ExitStack, setting: EngineConfig, name: str, cgroup: Cgroup | None, argv: Callable[[Control], list[str]]
) -> Entered:
    """Start the probe in the control group and in the session's network, as a container without a network has it, with
    the command that ``argv`` returns. ``name``: of the directory of its socket."""
    if cgroup:
        stack.callback(cgroup.remove)
    control = stack.enter_context(control_directory(setting.run / name, setting.probe))
    output = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
    words = in_network(setting.network, argv(control))
    process = spawn(words, output=output, cgroup_procs=cgroup.procs if cgroup else ())
    stack.callback(stop, process)
    if cgroup:
        stack.callback(cgroup.kill)
    alive = partial(_alive, process, output)
    server = control.server.accept(alive)
    stack.callback(server.close)
    return Entered(cgroup, server, alive)


def host_argv(control: Control) -> list[str]:
    """Return the command of a probe that stays on the host."""
    return [str(control.program), "serve", str(control.server.path)]


def chroot_argv(
    root: Path, tree: Path | None, control: Control, inputs: Path | None, own: Mapping[Path, str] | None = None
) -> list[str]:
    """Return the command that enters the root. ``tree`` None: the tree is a directory of the root filesystem itself.
    ``own``: directories that are mounted in the root."""
    arguments = [str(root), str(tree or ""), str(control.path), str(inputs or "")]
    arguments += [word for directory, place in (own or {}).items() for word in (str(directory), place)]
    return ["unshare", "--mount", "--propagation", "private", "--", "sh", "-euc", _ENTER, "sh", *arguments]


def _alive(process: Process, output: IO[bytes]) -> str:
    how = died(process)
    if not how:
        return ""
    output.seek(0)
    message = output.read().decode(errors="replace").strip()
    return message or f"its process ended ({how})"
