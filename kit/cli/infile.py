"""A user's file, perhaps compressed: read line by line, never beyond its limit."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from kit.core.errors import UsageError
from kit.core.regular import open_regular

#: Beginnings of compressed files: what opens each, and the program that checks it.
_PACKED: Mapping[bytes, tuple[Callable[[BinaryIO], object], str]] = {
    b"\x1f\x8b": (lambda file: gzip.GzipFile(fileobj=file), "gzip"),
    b"BZh": (bz2.BZ2File, "bzip2"),
    b"\xfd7zXZ\0": (lzma.LZMAFile, "xz"),
}
_OPEN: tuple[Callable[[BinaryIO], object], str] = (lambda file: file, "")


def read_lines(name: str, limit: int, option: str) -> Iterator[bytes]:
    """Yield the lines of a file. Raises UsageError if it can't be read, or exceeds ``limit`` bytes, which ``option``
    sets."""
    with _opened(name) as file:
        remaining = limit
        while line := file.readline(remaining + 1):
            remaining -= len(line)
            if remaining < 0:
                what = f"{name}: holds more than {limit / (1 << 20):.4g} MiB"
                raise UsageError(what, f"raise the limit if you trust it: {option} 4G")
            yield line


def read_text(name: str, limit: int, option: str) -> str:
    """Return a file's text: UTF-8, or UTF-16 as PowerShell writes it. Raises UsageError as above."""
    data = b"".join(read_lines(name, limit, option))
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data[:2]:  # UTF-16 without its mark: one byte of an ASCII character is NUL
        return data.decode("utf-16-be" if data[0] == 0 else "utf-16-le", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def beginning(name: str, size: int) -> bytes:
    """Return a file's first bytes. Raises UsageError as above."""
    with _opened(name) as file:
        return file.read(size)


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open the file: ``-`` is stdin; what gzip, bzip2 or xz wrote is decompressed."""
    packer = ""
    try:
        with open_regular(Path(name)) if name != "-" else nullcontext(sys.stdin.buffer) as file:
            start = cast(io.BufferedReader, file).peek(8)
            unpack, packer = next((packed for magic, packed in _PACKED.items() if start.startswith(magic)), _OPEN)
            yield cast(BinaryIO, unpack(cast(BinaryIO, file)))
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise _damaged(name, packer, error) from None
    except OSError as error:
        if packer and error.errno is None:  # raised by what decompresses, not by the system
            raise _damaged(name, packer, error) from None
        raise UsageError(
            f"{name}: {error.strerror or error}", "give a file that exists and may be read, or - for stdin"
        ) from None


def _damaged(name: str, packer: str, error: Exception) -> UsageError:
    return UsageError(f"{name}: damaged: {error}", f"copy it again; {packer} -t FILE checks it")
