"""The one door to tarballs. Those of others are read within bounds: tarfile itself keeps every entry, and headers of
any size. Names are UTF-8 in any locale."""

from __future__ import annotations

import lzma
import os
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

#: Maximum bytes of a header that describes the next entry: names and extended attributes; of one for all entries.
_LONGEST = 1 << 20
_LONGEST_GLOBAL = 1 << 16
_BOUNDS = {
    tarfile.XHDTYPE: _LONGEST,
    tarfile.SOLARIS_XHDTYPE: _LONGEST,
    tarfile.XGLTYPE: _LONGEST_GLOBAL,
    tarfile.GNUTYPE_LONGNAME: _LONGEST,
    tarfile.GNUTYPE_LONGLINK: _LONGEST,
}
#: Maximum blocks of a sparse file's map (GNU tar, "Sparse Formats"); a block describes 21 parts or more.
_MOST_MAP = 4096
#: Maximum number of entries; readers keep their names.
MOST_ENTRIES = 2_000_000
_LONGEST_NAME = 4096  # PATH_MAX
#: Maximum bytes of holes: an archive of a kilobyte may contain more than any disk holds.
_MOST_HOLES = 1 << 30

#: Exceptions of tarfile for damaged archives, and of decoding what is in them.
DAMAGED = (
    tarfile.TarError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, EOFError, RecursionError,
    zlib.error, lzma.LZMAError, struct.error,
)  # fmt: skip


@dataclass
class _Map:
    """A file of which only so many blocks may be read: those of a sparse file's map."""

    file: IO[bytes]
    remaining: int

    def read(self, size: int) -> bytes:
        self.remaining -= 1
        if self.remaining < 0:
            raise tarfile.ReadError("a sparse file has too many parts")
        return self.file.read(size)

    def tell(self) -> int:
        return self.file.tell()


class _BoundedEntry(tarfile.TarInfo):
    """An entry whose headers are bounded."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size > _BOUNDS.get(self.type, self.size):
            raise tarfile.ReadError(f"a header has {self.size} bytes, more than allowed")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]

    def _proc_sparse(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        return _with_map(tar, super()._proc_sparse, tar)  # type: ignore[misc,no-any-return]

    def _proc_gnusparse_10(self, following: tarfile.TarInfo, pax_headers: dict[str, str], tar: tarfile.TarFile) -> None:
        _with_map(tar, super()._proc_gnusparse_10, following, pax_headers, tar)  # type: ignore[misc]


def _with_map(tar: Any, read: Callable[..., Any], *arguments: object) -> Any:
    """Return the result of a reader of tarfile's, which reads blocks until the map says that it ends."""
    file = tar.fileobj
    tar.fileobj = _Map(file, _MOST_MAP)
    try:
        return read(*arguments)
    finally:
        tar.fileobj = file


def read_tarball(source: Path | IO[bytes]) -> tarfile.TarFile:
    """Open an uncompressed tarball, to be read with ``members``: in any order if its file can seek. Raises OSError, and
    the errors of tarfile (DAMAGED)."""
    if isinstance(source, Path):
        return tarfile.open(source, "r:", tarinfo=_BoundedEntry, encoding="utf-8", errors="surrogateescape")
    if source.seekable():
        return tarfile.open(
            fileobj=source, mode="r:", tarinfo=_BoundedEntry, encoding="utf-8", errors="surrogateescape"
        )
    return tarfile.open(fileobj=source, mode="r|", tarinfo=_BoundedEntry, encoding="utf-8", errors="surrogateescape")


def write_tarball(target: Path | Any, form: int = tarfile.PAX_FORMAT) -> tarfile.TarFile:
    """Open a new tarball for writing, at a path or to an object with ``write``. ``form``: a format of tarfile."""
    if isinstance(target, Path):
        return tarfile.open(target, "w", format=form, encoding="utf-8", errors="surrogateescape")
    return tarfile.open(fileobj=target, mode="w|", format=form, encoding="utf-8", errors="surrogateescape")


@dataclass
class Holes:
    """The bytes of holes that entries may still have: they become zeros."""

    remaining: int = _MOST_HOLES

    def spend(self, member: tarfile.TarInfo) -> None:
        """Raises tarfile.ReadError if the entry has more."""
        parts: Any = member.sparse  # (offset, size)
        if parts is not None:
            self.remaining -= max(0, member.size - sum(size for _, size in parts))
        if self.remaining < 0:
            raise tarfile.ReadError(f"{member.name[:60]} has more than {_MOST_HOLES >> 30} GiB of holes")


def members(tar: tarfile.TarFile, most: int = MOST_ENTRIES, holes: Holes | None = None) -> Iterator[tarfile.TarInfo]:
    """Yield all entries, one in memory at a time. ``holes``: what they share with the entries of other tarballs. Raises
    tarfile.ReadError beyond the bounds, and tarfile's errors."""
    holes = holes or Holes()
    for number, member in enumerate(tar):
        if number == most:
            raise tarfile.ReadError(f"it has more than {most} entries")
        if max(len(member.name), len(member.linkname)) > _LONGEST_NAME:
            raise tarfile.ReadError(f"the file name {member.name[:60]} is not allowed: it is too long")
        if member.type not in tarfile.SUPPORTED_TYPES and member.size:
            raise tarfile.ReadError(f"{member.name[:60]} is of an unknown type")
        holes.spend(member)
        yield member
        tar.members = []  # type: ignore[attr-defined]  # or it keeps them all


def check_tarball(path: Path) -> None:
    """Read all entries. Raises DAMAGED for a tarball that is damaged or beyond the bounds."""
    with read_tarball(path) as tar:
        for _ in members(tar):
            pass


def plain_name(name: str) -> str:
    """Return an entry's name without ``./`` and doubled slashes."""
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def local_name(name: str) -> str:
    """Return a name as the functions of ``os`` take it: a locale may have another encoding than UTF-8."""
    return os.fsdecode(name.encode("utf-8", "surrogateescape"))
