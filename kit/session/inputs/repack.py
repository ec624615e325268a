"""Repacks inputs as archives that are identical wherever they are made: filtered, with numeric owners 0:0."""

from __future__ import annotations

import fnmatch
import hashlib
import stat
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from kit.core.errors import RunError, UsageError
from kit.host.command import reading, writing
from kit.model.scenario import Input

PACKED = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".tar.bz2")


def repack(source: Path, target: Path, item: Input) -> str:
    """Write the filtered content as a tarball with numeric owners 0:0, without device nodes and setuid bits. Returns
    the digest of the uncompressed tar."""
    if source.is_dir():
        item = replace(item, strip=0)  # a tarball's one top directory is stripped from its names
    packer = ["cat"] if item.into != "inputs" else ["zstd", "-q", "-T0", "-3", "-c"]
    digest = hashlib.sha256()
    what = f"repacking {source}"
    try:
        with (
            target.open("wb") as output,
            reading(_reader(source), what) as read,
            writing(packer, output, what) as pack,
        ):
            _filter(read, _Tee(pack, digest.update), item)
            while read.read(1 << 20):
                pass  # the padding after the archive's end
    except tarfile.TarError as error:
        raise UsageError(f"{source} is not a usable tarball: {error}", "check the file") from None
    except RunError as error:
        raise RunError(
            error.message, "check the free space of the cache, and whether the tarball is complete"
        ) from None
    return digest.hexdigest()


def _reader(source: Path) -> list[str]:
    """Return the command that writes a directory, a tarball's content, or a single file as an archive."""
    if source.is_dir():
        return ["tar", "--sort=name", "-C", str(source), "-cf", "-", "."]
    if source.name.endswith(PACKED):
        return _decompress(source)
    return ["tar", "-C", str(source.parent), "-cf", "-", f"./{source.name}"]


def _decompress(path: Path) -> list[str]:
    tools = {"gz": "gzip", "tgz": "gzip", "xz": "xz", "zst": "zstd", "bz2": "bzip2"}
    tool = tools.get(path.name.rsplit(".", 1)[-1])
    return [tool, "-dc", str(path)] if tool else ["cat", str(path)]


class _Tee:
    """A writer that also feeds a digest."""

    def __init__(self, file: IO[bytes], update: Callable[[bytes], None]) -> None:
        self._file = file
        self._update = update

    def write(self, data: bytes) -> int:
        self._update(data)
        return self._file.write(data)


def _filter(source: IO[bytes], target: _Tee, item: Input) -> None:
    with (
        tarfile.open(fileobj=source, mode="r|") as reader,
        tarfile.open(fileobj=target, mode="w|", format=tarfile.GNU_FORMAT) as writer,  # type: ignore[call-overload]
    ):
        devices: set[str] = set()
        for member in reader:
            path = _strip(member.name, item.strip)
            if not path or (not member.isdir() and excluded(path, item.exclude)):
                continue
            member.name = path
            if member.islnk():
                member.linkname = _strip(member.linkname, item.strip)
            if member.ischr() or member.isblk() or (member.islnk() and member.linkname in devices):
                devices.add(path)
                continue
            member.mode &= ~(stat.S_ISUID | stat.S_ISGID)  # the files belong to root after unpacking
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.pax_headers = {}
            writer.addfile(member, reader.extractfile(member) if member.isreg() else None)


def _strip(name: str, parts: int) -> str:
    return "/".join([part for part in name.split("/") if part not in ("", ".")][parts:])


def excluded(path: str, patterns: tuple[str, ...]) -> bool:
    """Return whether the patterns exclude a name. The last matching pattern decides; ``!`` includes again. ``*``
    matches across slashes."""
    out = False
    for pattern in patterns:
        if fnmatch.fnmatchcase(path, pattern.removeprefix("!")):
            out = not pattern.startswith("!")
    return out
