"""A user's file, perhaps compressed: read line by line, never beyond its limit."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from kit.core.errors import UsageError
from kit.core.regular import open_regular


def read_lines(name: str, limit: int, option: str) -> Iterator[bytes]:
    """Yield the lines of a file. Raises UsageError if it can't be read, or exceeds ``limit`` bytes, which ``option``
    sets."""
    with _opened(name) as file:
        left = limit
        while line := file.readline(left + 1):
            left -= len(line)
            if left < 0:
                what = f"{name}: holds more than {limit / (1 << 20):.4g} MiB"
                raise UsageError(what, f"raise the limit if you trust it: {option} 4G")
            yield line


def beginning(name: str, size: int) -> bytes:
    """Return a file's first bytes. Raises UsageError as above."""
    with _opened(name) as file:
        return file.read(size)


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open the file: ``-`` is stdin; gzip's output is decompressed."""
    try:
        with open_regular(Path(name)) if name != "-" else nullcontext(sys.stdin.buffer) as file:
            packed = cast(io.BufferedReader, file).peek(2)[:2] == b"\x1f\x8b"
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file) if packed else file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(f"{name}: damaged: {error}", "copy it again; gzip -t FILE checks it") from None
    except OSError as error:
        raise UsageError(
            f"{name}: {error.strerror or error}", "give a file that exists and may be read, or - for stdin"
        ) from None
