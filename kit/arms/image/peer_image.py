"""Fetches images from another machine's cache, and checks them, instead of a build on this machine."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kit.arms.image.layout import check_layout
from kit.core.codec import Whole
from kit.core.errors import RunError
from kit.host.remote_cache import Peer, from_peers
from kit.host.tarball import DAMAGED

Environment = Mapping[str, str]
#: Writes rootfs.tar, and archive.tar if the image has layers; returns the image's environment.
Builder = Callable[[Path, Path], Environment]


@dataclass(frozen=True)
class _Record:
    """The fields of ``image.json`` that the files must match. ``layers`` None: a kit wrote it that did not record
    them."""

    digest: str
    size: Whole
    env: tuple[tuple[str, str], ...] = ()
    layers: str | None = None
    layers_size: Whole = 0
    machine: str = ""  # architecture of its programs; '' if an older kit made it


def checked(build: Builder, name: str) -> Builder:
    """Return ``build`` with a check: it raises UsageError if the kit's own directories lead outside in the image."""

    def make(rootfs: Path, archive: Path) -> Environment:
        env = build(rootfs, archive)
        check_layout(rootfs, name)
        return env

    return make


def taken_or_built(key: str, name: str, build: Builder, tell: Callable[[str], None]) -> Builder:
    """Return ``checked`` with a peer's image of that key as the first choice: all machines build it equally. A peer's
    image with a wrong layout is skipped."""

    def make(rootfs: Path, archive: Path) -> Environment:
        def take(peer: Peer) -> Environment | None:
            rootfs.unlink(missing_ok=True)
            archive.unlink(missing_ok=True)
            return _taken(peer, f"images/{key}", name, rootfs, archive, tell)

        env = from_peers(f"image {name}", take, tell)
        if env is not None:
            return env
        rootfs.unlink(missing_ok=True)
        archive.unlink(missing_ok=True)
        return checked(build, name)(rootfs, archive)

    return make


def _taken(
    peer: Peer, entry: str, name: str, rootfs: Path, archive: Path, tell: Callable[[str], None]
) -> Environment | None:
    record = peer.record(_Record, f"{entry}/image.json")
    if record is None:
        return None
    if record.machine not in ("", platform.machine()):
        raise RunError(f"it is for {record.machine}, and this machine is {platform.machine()}")
    if record.layers is None and peer.has(f"{entry}/archive.tar"):
        raise RunError(f"its layers have no digest, an older kit made it: kit image rm {name} there, then build it")
    tell(f"copying image {name}, {(record.size + record.layers_size) >> 20} MiB, from {peer}")
    peer.bring(f"{entry}/rootfs.tar", rootfs, record.size, record.digest, tell)
    try:
        check_layout(rootfs, name)
    except DAMAGED as error:
        raise RunError(f"{entry}/rootfs.tar is not a tarball: {error}") from None
    if record.layers:
        peer.bring(f"{entry}/archive.tar", archive, record.layers_size, record.layers, tell)
    return dict(record.env)
