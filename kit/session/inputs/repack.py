"""Repacks inputs as archives that are identical wherever they are made: filtered, with numeric owners 0:0."""

from __future__ import annotations

import fnmatch
import hashlib
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from kit.arms.image.decompress import plain, usable
from kit.core.errors import RunError
from kit.host.command import reading, writing
from kit.host.tarball import members, plain_name, read_tarball, write_tarball
from kit.model.scenario import Input

#: Their names are kept.
_MOST_DEVICES = 10_000
PACKED = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".tar.bz2")


def repack(source: Path, target: Path, spec: Input) -> str:
    """Write the filtered content as a tarball with numeric owners 0:0, without device nodes and setuid bits. Returns
    the digest of the uncompressed tar. Raises UsageError for a damaged tarball, and for content beyond the bounds."""
    if source.is_dir():
        spec = replace(spec, strip=0)  # a tarball's one top directory is stripped from its names
    packer = ["cat"] if spec.into != "inputs" else ["zstd", "-q", "-T0", "-3", "-c"]
    digest = hashlib.sha256()
    what = f"repacking {source}"
    try:
        with (
            usable(source, "check the file"),
            target.open("wb") as output,
            _archive(source, what) as archive,
            writing(packer, output, what) as pack,
        ):
            _filter(archive, _Tee(pack, digest.update), spec)
            while archive.read(1 << 20):
                pass  # the padding after the archive's end
    except RunError as error:
        raise RunError(
            error.message, "check the free space of the cache, and whether the tarball is complete"
        ) from None
    return digest.hexdigest()


@contextmanager
def _archive(source: Path, what: str) -> Iterator[IO[bytes]]:
    """Yield a directory, a tarball's content, or a single file as an archive. A sparse file keeps its holes, which are
    bounded, until it is written."""
    if source.is_dir():
        words = ["tar", "--sparse", "--sort=name", "-C", str(source), "-cf", "-", "."]
    elif source.name.endswith(PACKED):
        with plain(source) as content:
            yield content
        return
    else:
        words = ["tar", "--sparse", "-C", str(source.parent), "-cf", "-", f"./{source.name}"]
    with reading(words, what) as content:
        yield content


class _Tee:
    """A writer that also feeds a digest."""

    def __init__(self, file: IO[bytes], update: Callable[[bytes], None]) -> None:
        self._file = file
        self._update = update

    def write(self, data: bytes) -> int:
        self._update(data)
        return self._file.write(data)


def _filter(source: IO[bytes], target: _Tee, spec: Input) -> None:
    with read_tarball(source) as reader, write_tarball(target, tarfile.GNU_FORMAT) as writer:
        devices: set[str] = set()
        for member in members(reader):
            path = _strip(member.name, spec.strip)
            if not path or (not member.isdir() and excluded(path, spec.exclude)):
                continue
            member.name = path
            if member.islnk():
                member.linkname = _strip(member.linkname, spec.strip)
            if member.ischr() or member.isblk() or (member.islnk() and member.linkname in devices):
                devices.add(path)
                if len(devices) > _MOST_DEVICES:
                    raise ValueError(f"it has more than {_MOST_DEVICES} device nodes")
                continue
            if member.isreg():
                member.type = tarfile.REGTYPE  # a sparse one is written whole
            member.mode &= ~(stat.S_ISUID | stat.S_ISGID)  # the files belong to root after unpacking
            if spec.into == "directory":  # that other users of an arm read, whatever the umask was that made it
                member.mode |= (member.mode & 0o500) >> 3 | (member.mode & 0o500) >> 6
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.pax_headers = {}
            writer.addfile(member, reader.extractfile(member) if member.isreg() else None)


def _strip(name: str, parts: int) -> str:
    return "/".join(plain_name(name).split("/")[parts:])


def excluded(path: str, patterns: tuple[str, ...]) -> bool:
    """Return whether the patterns exclude a name. The last matching pattern decides; ``!`` includes again. ``*``
    matches across slashes."""
    out = False
    for pattern in patterns:
        if fnmatch.fnmatchcase(path, pattern.removeprefix("!")):
            out = not pattern.startswith("!")
    return out
