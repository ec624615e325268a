"""Tarballs of others, read with bounds: tarfile itself keeps every entry, and headers of any size."""

from __future__ import annotations

import lzma
import struct
import tarfile
import zlib
from collections.abc import Iterator

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

#: Exceptions of tarfile for damaged archives, and of decoding what is in them.
DAMAGED = (
    tarfile.TarError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, EOFError, RecursionError,
    zlib.error, lzma.LZMAError, struct.error,
)  # fmt: skip


class BoundedEntry(tarfile.TarInfo):
    """An entry whose headers are bounded. Pass it to tarfile.open as ``tarinfo``."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size > _BOUNDS.get(self.type, self.size):
            raise tarfile.ReadError(f"a header has {self.size} bytes, more than allowed")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]

    def _proc_sparse(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        extended = self._sparse_structs[1]  # type: ignore[attr-defined]
        assert tar.fileobj
        start = tar.fileobj.tell()
        for blocks in range(_MOST_MAP + 1):
            if not extended:
                break
            if blocks == _MOST_MAP:
                raise tarfile.ReadError("a sparse file has too many parts")
            extended = bool(tar.fileobj.read(tarfile.BLOCKSIZE)[504])
        tar.fileobj.seek(start)
        return super()._proc_sparse(tar)  # type: ignore[misc,no-any-return]

    def _proc_gnusparse_10(self, following: tarfile.TarInfo, pax_headers: dict[str, str], tar: tarfile.TarFile) -> None:
        assert tar.fileobj
        start = tar.fileobj.tell()
        parts = int(tar.fileobj.read(tarfile.BLOCKSIZE).split(b"\n", 1)[0])
        if parts > _MOST_MAP * 21:
            raise tarfile.ReadError("a sparse file has too many parts")
        tar.fileobj.seek(start)
        super()._proc_gnusparse_10(following, pax_headers, tar)  # type: ignore[misc]


def members(tar: tarfile.TarFile, most: int) -> Iterator[tarfile.TarInfo]:
    """Yield all entries, one in memory at a time. Raises tarfile.ReadError after ``most`` entries, and tarfile's
    errors."""
    for number, member in enumerate(tar):
        if number == most:
            raise tarfile.ReadError(f"it has more than {most} entries")
        yield member
        tar.members = []  # type: ignore[attr-defined]  # or it keeps them all
