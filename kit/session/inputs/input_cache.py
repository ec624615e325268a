"""Inputs in the cache: a file or directory each, with its facts beside it. A peer's cache may have missing ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kit.core.codec import Whole
from kit.core.errors import RunError
from kit.core.private import make_directory
from kit.host.cache_use import mark_used
from kit.host.durable import publish, read_record, write_record
from kit.host.remote_cache import Peer, from_peers
from kit.host.safe_fs import remove, scratch, unpack
from kit.model.scenario import Input
from kit.session.inputs.repack import repack

_SUFFIX = {"tree": ".tar", "inputs": ".tar.zst", "directory": ""}


@dataclass(frozen=True)
class PreparedInput:
    """An input. ``path`` is a .tar if the kit unpacks it into the tree, a .tar.zst if the scenario unpacks it, and a
    directory if the scenario reads it directly. ``revision``: of which arms it is the input; '' for all."""

    name: str
    into: str
    path: Path
    digest: str
    revision: str = ""


@dataclass(frozen=True)
class _Facts:
    """The record beside an input in the cache. ``size``: bytes of its file, 0 for a directory, None if an older kit
    wrote it."""

    source: str
    digest: str  # of the uncompressed archive
    size: Whole | None = None


@dataclass(frozen=True)
class InputCache:
    """``inputs/NAME-KEY`` with its facts beside it. ``shared``: peers are asked first for missing inputs, since the
    same key means the same content there."""

    cache: Path
    tell: Callable[[str], None]
    shared: bool

    def has(self, item: Input, origin: object) -> bool:
        """Return whether the cache has the input of that origin."""
        return read_record(_Facts, _record_of(self._target(item, origin))) is not None

    def _target(self, item: Input, origin: object) -> Path:
        suffix = _SUFFIX[item.into]
        key = hashlib.sha256(repr((origin, suffix)).encode()).hexdigest()[:16]
        return self.cache / "inputs" / f"{item.name}-{key}{suffix}"

    def get(self, item: Input, origin: object, make: Callable[[Path], Path]) -> PreparedInput:
        """Return the input of that origin from the cache, or the result of ``make(scratch directory)``: a directory or
        a tarball."""
        target = self._target(item, origin)
        facts = _record_of(target)
        record = read_record(_Facts, facts)
        if record is None:
            make_directory(target.parent)
            with scratch(target.parent) as directory:
                new = directory / "repacked"
                digest = self._taken(item, target.name, new, directory) or repack(make(directory), new, item)
                if item.into == "directory":
                    new = _unpacked(new)
                    remove(target)  # left by a killed start before it wrote the facts
                record = _Facts(item.source, digest, 0 if new.is_dir() else new.stat().st_size)
                publish(new, target)
            write_record(facts, record)
        mark_used(target)
        return PreparedInput(item.name, item.into, target, record.digest, item.revision)

    def _taken(self, item: Input, name: str, new: Path, scratch: Path) -> str:
        """Write a peer's content as the archive that making it would give, and return its digest; '' if no peer has
        it."""

        def take(peer: Peer) -> str | None:
            peer_record = peer.record(_Facts, f"inputs/{name}.json")
            if peer_record is None:
                return None
            if peer_record.size is None:
                raise RunError(f"its size is not known, an older kit made it: remove inputs/{name}.json there")
            source = peer.directory(f"inputs/{name}")
            if item.into == "directory" and source is None:
                return None
            self.tell(f"copying {item.name} from {peer}")
            if source is None:
                source = scratch / f"taken{_SUFFIX[item.into]}"
                peer.bring(f"inputs/{name}", source, peer_record.size, None, self.tell)
            digest = repack(source, new, replace(item, strip=0, exclude=()))
            if digest != peer_record.digest:
                raise RunError(f"{name} is not what its facts say: digest {digest[:12]}, not {peer_record.digest[:12]}")
            return digest

        return (from_peers(item.name, take, self.tell) or "") if self.shared else ""


def _record_of(target: Path) -> Path:
    return target.with_name(target.name + ".json")


def _unpacked(tarball: Path) -> Path:
    directory = tarball.with_name("directory")
    directory.mkdir()
    directory.chmod(0o755)  # whatever the umask is: users of scenarios go there
    unpack(tarball, directory, what="unpacking an input")
    return directory
