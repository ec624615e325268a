"""Trials of arms: a command runs in a sandbox of each, with an image that contains almost nothing."""

from __future__ import annotations

import errno
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.arms.engines import Sandbox
from kit.arms.engines.root import root_name
from kit.arms.filesystem import BackingOptions
from kit.arms.filesystem.backing import GIB
from kit.arms.image import Image, ImageCache
from kit.arms.image.layout import CONTROL, TREE
from kit.core.errors import SESSION_LOG, KitError, brief, said_by_system
from kit.core.paths import Paths
from kit.host.interrupt import checkpoint
from kit.host.machine import Host, read_host
from kit.host.tarball import write_tarball
from kit.model.arm import Arm, arms_of
from kit.model.event import EventSink
from kit.session.execute.session_loop import held_machine
from kit.session.measure.context import MachineLease
from kit.session.plan.planning import check_arm
from kit.session.setup.provision import Provision, ProvisionSpec


@dataclass(frozen=True)
class Diagnosis:
    """One tested feature. ``fix``: the command or change that would fix it, empty if it works."""

    kind: str
    name: str
    works: bool
    reason: str
    fix: str = ""


def try_arms(names: Sequence[str], paths: Paths, observer: EventSink, wait: bool = False) -> Iterator[Diagnosis]:
    """Try each arm, one diagnosis at a time. ``names``: as users write arms. Raises UsageError for an arm that does not
    exist, BusyError while a session holds the machine."""
    arms = arms_of(names)
    for arm in arms:
        check_arm(arm, BackingOptions())
    built = {image.name for image in ImageCache(paths.cache).list()}
    with held_machine("doctor", paths, wait, observer) as lease, trial_provision(lease, read_host()) as provision:
        for arm in arms:
            missing = [name for part in arm.parts if (name := _root_of(part)) not in ("", *built)]
            yield unbuilt("arm", str(arm), missing[0]) if missing else try_arm(provision, arm, "arm", str(arm), ran_on)


def _root_of(arm: Arm) -> str:
    """Return the recipe of the engine root that the arm names; '' without one."""
    engine, at, version = arm.engine.partition("@")
    return root_name(engine, version) if at else ""


def unbuilt(kind: str, name: str, recipe: str) -> Diagnosis:
    reason, fix = "its engine root is not built yet; kit compare builds it", f"kit image build {recipe}"
    return Diagnosis(kind, name, False, reason, fix)


@contextmanager
def trial_provision(lease: MachineLease, host: Host) -> Iterator[Provision]:
    options = BackingOptions(size=4 * GIB, images=lease.paths.loops)
    with Provision(ProvisionSpec(lease.setting, host, options, _tiny_image(lease), None)) as provision:
        yield provision


def try_arm(provision: Provision, arm: Arm, kind: str, name: str, describe: Callable[[Sandbox], str]) -> Diagnosis:
    """``describe``: returns what the trial has shown."""
    checkpoint()
    try:
        blocked = provision.ready(arm)
        if blocked:
            return Diagnosis(kind, name, False, blocked.reason, own_fix(blocked.fix))
        with provision.sandbox(arm) as sandbox:
            run_probe(sandbox)
            return Diagnosis(kind, name, True, describe(sandbox))
    except Exception as error:  # one arm that fails as nobody has foreseen must not hide the others
        return refused(kind, name, error)


def refused(kind: str, name: str, error: Exception) -> Diagnosis:
    """Return the diagnosis for an error."""
    if isinstance(error, KitError):
        reason, fix = error.message, own_fix(error.hint)
    elif isinstance(error, PermissionError) and os.geteuid() != 0:
        reason, fix = f"{error.filename or 'it'} needs root", "run as root: sudo kit …"
    elif isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = "free space on that filesystem" if full else "check the rights and mounts of that path, and dmesg"
        reason = said_by_system(error)
    else:
        reason, fix = brief(f"{type(error).__name__}: {error}"), "report it: this is a fault of the kit"
    return Diagnosis(kind, name, False, reason, fix)


def own_fix(fix: str) -> str:
    """Return a fix as doctor prints it: errors of sessions refer to doctor."""
    return SESSION_LOG if "kit doctor" in fix else fix


def ran_on(sandbox: Sandbox) -> str:
    return f"a command ran on {sandbox.backing.type}"


def run_probe(sandbox: Sandbox) -> None:
    """Have the probe run itself in the sandbox: every root filesystem has this program."""
    inside = sandbox.tree == TREE
    probe = f"{CONTROL}/kit-probe" if inside else "true"
    with tempfile.TemporaryFile() as output:
        timing = sandbox.run([probe, "spin"], ".", output)
        sandbox.backing.sync()
    if not timing.ok:
        raise KitError(f"a command in it ended with {timing.exit_code}, signal {timing.signal}", "see dmesg")


def _tiny_image(lease: MachineLease) -> Image:
    """Make a root filesystem that contains only the directories over which engines mount."""

    def build(rootfs: Path, archive: Path) -> dict[str, str]:
        with write_tarball(rootfs) as tar:
            for name in ("dev", "etc", "proc", "sys", "tmp", TREE.lstrip("/")):
                entry = tarfile.TarInfo(f"./{name}")
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(entry)
        return {}

    return ImageCache(lease.setting.run).make("tiny", "tiny", "made by kit doctor", build)
