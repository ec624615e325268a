"""Unions of plain directories, without an engine: the image below, read-only, and a new writable branch above it.

``union:overlay`` is the kernel's overlay as a storage driver mounts it, with the commonly tuned features as options.
``union:unionfs-fuse`` and ``union:mergerfs`` are aufs-style unions for machines without aufs. mergerfs does not copy
up: files of the image can't be changed in it. It would change them in place, though, also in a branch that it is told
to be read-only, and the next run would read another image: so the kernel refuses that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from kit.arms.engines.backing_root import BackingRoot, remove_tree, unpack_tree
from kit.arms.engines.bare import BareEngine, chroot_argv
from kit.arms.engines.engine import Blocker, EngineConfig
from kit.arms.engines.root import EngineRoot
from kit.arms.engines.sandbox import Sandbox
from kit.arms.filesystem.block import unmount
from kit.arms.filesystem.mounted import not_in_force
from kit.arms.image.layout import INPUTS, TREE
from kit.core.errors import MachineError, RunError
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import died, require, run, spawn, stop
from kit.host.machine import Host
from kit.host.mounts import mount_of, mounts_below
from kit.host.waiting import NotReadyError, wait_for
from kit.model.arm import Arm, driver_of
from kit.model.fact import PROGRAM, Fact

_FUSE = "allow_other,suid,dev,use_ino"
#: Seconds within which a program must mount.
_PATIENCE = 10


class UnionEngine(BareEngine):
    def __init__(self, setting: EngineConfig) -> None:
        super().__init__(setting)
        self._versions: dict[str, str] = {}

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        if not host.root:
            return Blocker("mounting a union needs root", "run as root: sudo kit …")
        try:
            for tool, package in driver_of(arm).packages.items():
                require(tool, package)
        except MachineError as error:
            return Blocker(error.message, error.hint)
        return None

    def facts(self) -> list[Fact]:
        return [*super().facts(), *(PROGRAM.fact(version, name) for name, version in self._versions.items())]

    def fill(self, arm: Arm, backing_root: BackingRoot) -> None:
        """Unpack the lower branch, and mount once, so that refused options are known now."""
        backing_root.unpack_root()
        for program in driver_of(arm).packages:
            self._versions[program] = EngineRoot().version(program)
        with self._mounted(arm, backing_root):
            return

    @contextmanager
    def sandbox(self, arm: Arm, backing_root: BackingRoot) -> Iterator[Sandbox]:
        with ExitStack() as stack:
            root, daemons = stack.enter_context(self._mounted(arm, backing_root))
            tree = root / TREE.lstrip("/")
            entered = self.enter(
                stack, backing_root, "union", lambda control: chroot_argv(root, None, control, backing_root.inputs)
            )
            yield Sandbox(
                tree=TREE,
                inputs=INPUTS,
                cgroup=entered.cgroup,
                backing=backing_root.backing,
                probe=entered.probe,
                unpack=partial(unpack_tree, tree),
                alive=entered.alive,
                env=backing_root.env,
                layered=True,
                daemons=daemons,
            )

    @contextmanager
    def _mounted(self, arm: Arm, backing_root: BackingRoot) -> Iterator[tuple[Path, Cgroup | None]]:
        """Yield the union, mounted on the backing filesystem, and the control group of its daemon, if any. The upper
        branch is removed with it."""
        branch = backing_root.backing.path / backing_root.new_name()
        upper, work, merged = (branch / name for name in ("upper", "work", "merged"))
        with ExitStack() as stack:
            stack.callback(remove_tree, branch)  # with the mount of a daemon that was killed
            for directory in (upper, work, merged):
                directory.mkdir(parents=True)
            lower, daemons = backing_root.plain_root.path, None
            if arm.driver == "overlay":
                features = arm.feature_words
                words = f"lowerdir={lower},upperdir={upper},workdir={work}"
                run(
                    ["mount", "-t", "overlay", "-o", ",".join((words, *features)), "kit", merged],
                    what=f"mount of {arm}",
                )
                stack.callback(unmount, merged)
                ignored = not_in_force(features, mount_of(merged))
                if ignored:
                    raise MachineError(f"{arm}: this kernel ignores the mount option {ignored[0]}", "leave it out")
            else:
                # Of the branch's name there is one on each filesystem.
                name = f"{backing_root.below(f'{self.setting.cgroup}/served')}/{branch.parent.name}-{branch.name}"
                daemons = self._fuse(stack, arm, (lower, upper, merged), Cgroup.named(name).create())
            yield merged, daemons

    def _fuse(self, stack: ExitStack, arm: Arm, where: tuple[Path, Path, Path], group: Cgroup) -> Cgroup:
        """Start the daemon outside the arm's control group: its CPU is in `outside`, as with any FUSE driver."""
        image, upper, merged = where
        lower = merged.with_name("lower")
        lower.mkdir()
        run(["mount", "-o", "bind,ro", image, lower], what=f"mount of {arm}")
        stack.callback(unmount, lower)
        options = {"unionfs-fuse": f"cow,{_FUSE}", "mergerfs": f"category.create=ff,minfreespace=0,{_FUSE}"}
        words = [arm.driver, "-f", "-o", options[arm.driver], f"{upper}=RW:{lower}=RO", str(merged)]
        stack.callback(group.remove)
        output = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
        process = spawn(words, output=output, cgroup_procs=group.procs)
        stack.callback(stop, process)
        try:  # the table: a stat of the path fails if the daemon is dead
            wait_for(partial(mounts_below, merged), partial(died, process), _PATIENCE)
        except NotReadyError as error:
            output.seek(0)
            message = output.read().decode(errors="replace").strip() or str(error)
            raise RunError(f"{arm.driver} does not mount: {message}", "see with kit doctor what works here") from None
        stack.callback(unmount, merged)
        return group
