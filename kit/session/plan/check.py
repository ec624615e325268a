"""The check of a plan: everything about a request that can be known before the machine is held.

``kit compare`` with and without ``--dry-run``, ``kit nightly``, pytest and a fleet's client share it.
Nothing is built, mounted or fetched."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from kit.analysis.session.threshold import Threshold, rounds_note
from kit.arms.filesystem.device import check_devices
from kit.arms.image.image import check_rootfs
from kit.arms.image.image_file import check_image_name
from kit.core.errors import UsageError
from kit.core.paths import find_paths
from kit.host.machine import Host, read_host
from kit.model.drivers import SYSTEM, Docker
from kit.model.plan import Plan
from kit.model.sample import TOTAL
from kit.model.session import Request
from kit.session.inputs.repack import PACKED
from kit.session.inputs.sources import check_source
from kit.session.plan.planning import prepare, the_docker, with_guest_cores
from kit.session.prepared import Prepared


def check_request(
    request: Request,
    thresholds: Iterable[Threshold] = (),
    *,
    host: Host | None = None,
    docker: Docker | None = None,
    wipe: Collection[Path] = (),
    here: bool = True,
) -> Prepared:
    """Return what a new session would run. ``host``: as its workload will find it; None: this machine, or its guest.
    ``docker``: as ``plan_of``. ``wipe``: devices that may be overwritten. ``here``: it would run on this machine, else
    on a fleet, whose machines have its files. Raises UsageError, MachineError."""
    check_guest(request)
    if host is None:
        host = with_guest_cores(request, read_host() if here else replace(read_host(), root=True))
    prepared = prepare(request, host, docker or the_docker(request))
    check_thresholds(thresholds, prepared, here or bool(request.arms))
    if here:
        _check_tree(prepared.request)
        prepared = replace(prepared, devices=tuple(check_devices(request, wipe)))
    check_prepared(prepared, here)
    return prepared


def check_guest(request: Request) -> None:
    """Check that a guest, if one is wanted, can have what is requested. Raises UsageError."""
    theirs = (request.device, request.directory, request.export, request.docker, request.thin_device)
    if request.guest and (request.engine == SYSTEM or any(theirs)):
        raise UsageError(
            "a guest has disks and engines of its own",
            "leave out --engine system, --device, --dir, --export, --docker and --thin-device, or --guest",
        )


def check_thresholds(thresholds: Iterable[Threshold], prepared: Prepared, arms_known: bool = True) -> None:
    """Check that the session measures what the thresholds limit. ``arms_known``: else a fleet's machines decide on the
    default arms. Raises UsageError."""
    arms = [str(arm) for arm in prepared.plan.arms]
    phases = [step.name for step in prepared.scenario.phases]
    what = prepared.request.own_command or prepared.scenario.label
    for threshold in thresholds:
        if arms_known and threshold.arm not in arms:
            raise UsageError(
                f"threshold '{threshold}': its arm is not measured", f"use one of: {', '.join(sorted(arms))}"
            )
        if threshold.phase not in ("", *phases, *([TOTAL] if len(phases) > 1 else [])):
            raise UsageError(
                f"threshold '{threshold}': {what} has no phase '{threshold.phase}'",
                f"leave the phase out, or use one of: {', '.join(phases)}",
            )


def limits_note(thresholds: Collection[Threshold], plan: Plan) -> str:
    """Return the warning that the plan has too few rounds for its limits; '' if it has enough, or no limits."""
    return rounds_note(plan.rounds) if thresholds and not plan.open_ended else ""


def _check_tree(request: Request) -> None:
    """Check that a command's source is a tree. A scenario's input may be a single file. Raises UsageError."""
    path = Path(request.source)
    if request.own_command and path.is_file() and not path.name.endswith(PACKED):
        raise UsageError(f"source '{path}' is a file, not a directory or a tarball", "name the directory that has it")


def check_prepared(prepared: Prepared, here: bool = True) -> None:
    """Check image, sources and files of a session that begins or goes on. ``here``: as for ``check_request``. Raises
    UsageError, MachineError."""
    request, cache = prepared.request, find_paths().cache
    for scenario in (*prepared.scenarios.values(), *([prepared.load] if prepared.load else [])):
        for source in dict.fromkeys(source for source in scenario.inputs if source.source):
            check_source(source, cache, here)
        if scenario.image:
            check_image_name(scenario.image)
    if here and request.rootfs:
        check_rootfs(Path(request.rootfs))
    if request.image and (here or not Path(request.image).is_absolute()):
        check_image_name(request.image)
    if here and request.docker and not Path(request.docker).exists():
        raise UsageError(f"--docker {request.docker}: no such file or directory", "name a dockerd, or its directory")
    if here and request.modules and not Path(request.modules).is_dir():
        raise UsageError(f"--modules {request.modules}: no such directory", "name a /lib/modules/VERSION")
