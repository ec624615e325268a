"""The disks of a guest: its root filesystem, the kit, and the data of one session."""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib import resources
from pathlib import Path

from kit.arms.engines.root import image_root, root_name, versions
from kit.arms.filesystem.backing import GIB
from kit.arms.image import unpack
from kit.core.codec import encode
from kit.core.errors import MachineError
from kit.extra.guest import Disk, Machine, Tools
from kit.extra.guest.disk import cached_disk, make_disk
from kit.extra.guest.machine import COPY, READ, WRITE
from kit.extra.guest.python import python_disk
from kit.host.command import run
from kit.host.mounts import mount_of
from kit.host.safe_fs import identity, new_file
from kit.model.arm import engines_of
from kit.model.drivers import kernel_modules
from kit.session.execute.materials import Materials
from kit.session.measure.context import MachineLease
from kit.session.prepared import SessionContext
from kit.session.wire.messages import GuestJob

#: The guest's path of what the host keeps in its cache directory.
_CACHE = Path("/kit/cache")
#: Bytes that must be free on the disk where the guest's disk grows.
_ROOM = 8 * GIB


def guest_disks(
    job: GuestJob, context: SessionContext, lease: MachineLease, machine: Machine, directory: Path
) -> list[Disk]:
    tools = Tools(lease.paths.cache, context.events.tell)
    tell, where = context.events.tell, tools.directory
    image = tools.image("guest")
    init = resources.files("kit.extra.guest").joinpath("init.sh").read_bytes()
    drivers = " ".join(kernel_modules())

    def fill_root(scratch: Path) -> Path:
        root = scratch / "root"
        unpack(image, root)
        new_file(root, "kit-init", init, 0o755)
        new_file(root, "kit-modules", drivers.encode())
        return root

    key = hashlib.sha256(image.digest.encode() + init + drivers.encode()).hexdigest()[:16]
    root = cached_disk(where, "root", key, fill_root, 2 * GIB, tell)
    inputs = _cache_disk(job, context, lease, tools)
    disks = [Disk(root, COPY), Disk(python_disk(where, tell), READ), Disk(inputs, COPY)]
    modules = machine.modules()
    if modules:
        disks.append(Disk(cached_disk(where, "modules", modules_key(modules), lambda scratch: modules, 0, tell), READ))
    free = shutil.disk_usage(directory).free
    if free < _ROOM:
        raise MachineError(
            f"{directory} has {free / GIB:.1f} GiB free, a guest's disk may grow beyond that",
            f"free {_ROOM / GIB:.0f} GiB, or set KIT_HOME to a larger disk",
        )
    data = directory / "job"
    (data / "data").mkdir(parents=True)
    (data / "data/job.json").write_text(job_text(job, lease.paths.cache))
    make_disk(data, directory / "data.img", "kit-data", 4 * job.session.request.size)
    return [*disks, Disk(directory / "data.img", WRITE)]


def modules_key(modules: Path) -> str:
    """Return the key of the disk with a directory of kernel modules."""
    return hashlib.sha256(f"{modules} {identity(modules)}".encode()).hexdigest()[:16]


def job_text(job: GuestJob, cache: Path) -> str:
    """Return the job with the guest's paths: the host's cache is at another path there."""

    def place(path: Path) -> Path:
        return _CACHE / path.relative_to(cache) if path.is_relative_to(cache) else path

    return json.dumps(encode(job, place))


def _cache_disk(job: GuestJob, context: SessionContext, lease: MachineLease, tools: Tools) -> Path:
    """Copy the part of the host's cache that this session needs, under the same names."""
    cache = lease.paths.cache
    materials, paths = job.materials, {lease.setting.probe}
    images = [materials.image, materials.load.image if materials.load else None]
    paths |= {image.rootfs.parent for image in images if image}
    for folders in (materials.folders, materials.load.folders if materials.load else {}):
        paths |= {prepared.path for inputs in folders.values() for prepared in inputs}
    for name in engines_of(context.prepared.plan.arms):
        engine, _, version = name.partition("@")
        if version in versions(engine):
            root = image_root(root_name(engine, version), cache, tools.tell)
            image = tools.image(root_name(engine, version))
            paths |= {image.rootfs.parent, *([root.path] if root.path else [])}

    def fill(scratch: Path) -> Path:
        for path in sorted(paths):
            copy = scratch / "cache" / path.relative_to(cache)
            copy.parent.mkdir(parents=True, exist_ok=True)
            _stand_in(path, copy)
        return scratch / "cache"

    key = hashlib.sha256("\n".join(sorted(map(str, paths))).encode() + _digest(materials)).hexdigest()[:16]
    return cached_disk(tools.directory, "cache", key, fill, 8 * GIB, tools.tell)


def _stand_in(path: Path, copy: Path) -> None:
    """Make hard links if possible: images have gigabytes. A directory of the cache may be a mount of its own."""
    if copy.parent.stat().st_dev == path.stat().st_dev and mount_of(copy.parent) == mount_of(path):
        run(["cp", "-al", path, copy])
    else:
        run(["cp", "-a", "--reflink=auto", path, copy])


def _digest(materials: Materials) -> bytes:
    digests = [prepared.digest for inputs in materials.folders.values() for prepared in inputs]
    digests += [materials.image.digest] if materials.image else []
    if materials.load:
        digests.append(_digest(Materials(materials.load.image, materials.load.folders)).hex())
    return hashlib.sha256(" ".join(digests).encode()).digest()
