"""Decompression by the programs that tar calls too: no memory of theirs is the kit's, and it is bounded.

Python 3.11 has no zstd. The program zstd is needed for root filesystems of .tar.zst anyway, bounds its memory by an
option, and works beside the kit on another CPU; a package for it would be one more to install on every machine."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kit.arms.image.manifest import UnusableError
from kit.core.errors import UsageError
from kit.core.regular import open_regular
from kit.host.command import CommandError, reading
from kit.host.tarball import DAMAGED

#: First bytes of a compressed file, and the program that decompresses it. Memory: xz -9 and zstd -19 need less, and a
#: file of a few bytes may ask for gigabytes. zstd's last magic number is of a frame that decompressors skip (RFC 8878).
_XZ = ("xz", "-dc", "--memlimit-decompress=128MiB")
_ZSTD = ("zstd", "-dc", "--memory=128MiB")
_PROGRAMS: tuple[tuple[bytes, tuple[str, ...]], ...] = (
    (b"\x1f\x8b", ("gzip", "-dc")),
    (b"BZh", ("bzip2", "-dc")),
    (b"\xfd7zXZ\0", _XZ),
    (b"\x5d\0\0", _XZ),  # lzma
    (b"\x28\xb5\x2f\xfd", _ZSTD),
    *((bytes((low, 0x2A, 0x4D, 0x18)), _ZSTD) for low in range(0x50, 0x60)),
)
#: What an image may decompress to: a few kilobytes can become as much as any disk holds.
_LEAST, _RATIO = 1 << 30, 100


@dataclass
class Allowance:
    """How many bytes an image may still decompress to."""

    remaining: int

    @classmethod
    def of(cls, size: int) -> Allowance:
        """Return that of an image whose files have ``size`` bytes as they are."""
        return cls(max(_LEAST, _RATIO * size))

    def spend(self, size: int) -> None:
        self.remaining -= size
        if self.remaining < 0:
            raise UnusableError(f"it decompresses to more than 1 GiB and {_RATIO} times its size")


class _Bounded(io.RawIOBase):
    """A stream of which only the allowance is read."""

    def __init__(self, file: IO[bytes], allowance: Allowance) -> None:
        super().__init__()
        self._file = file
        self._allowance = allowance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        self._allowance.spend(len(data))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def plain(path: Path, allowance: Allowance | None = None) -> Iterator[IO[bytes]]:
    """Yield a file's decompressed content, at most that of the allowance, by default what a file of its size may
    have. Raises UnusableError, UsageError if that takes too much memory, MachineError
    without the program, OSError."""
    with open_regular(path) as file:
        program = _program(file)
        if not program:
            yield file
            return
        try:
            with reading(program, source=file) as output:
                yield io.BufferedReader(_Bounded(output, allowance or Allowance.of(os.fstat(file.fileno()).st_size)))
        except CommandError as error:
            if "memory" in error.said.lower():
                fix = f"pack it with {program[0]} and no option for a larger window than its default"
                raise UsageError(f"{path}: decompressing it takes more than 128 MiB of memory", fix) from None
            raise UnusableError(error.message) from None


def is_compressed(path: Path) -> bool:
    with open_regular(path) as file:
        return bool(_program(file))


def decompress(path: Path, target: Path, allowance: Allowance) -> str:
    """Write the decompressed content; return its SHA-256. Raises the errors of ``plain``."""
    digest = hashlib.sha256()
    with plain(path, allowance) as source, target.open("wb") as file:
        while data := source.read(1 << 20):
            digest.update(data)
            file.write(data)
    return digest.hexdigest()


def decompressed(path: Path, target: Path) -> Path:
    """Return a file itself, or ``target`` with its decompressed content. Raises the errors of ``plain``."""
    if is_compressed(path):
        decompress(path, target, Allowance.of(path.stat().st_size))
        return target
    return path


@contextmanager
def usable(path: Path, fix: str = "pack the root filesystem again, with tar") -> Iterator[None]:
    """Raise UsageError for a user's file that the block finds damaged, or beyond the bounds."""
    try:
        yield
    except UnusableError as error:
        raise UsageError(f"{path}: {error.reason}", fix) from None
    except DAMAGED as error:
        reason = str(error) or type(error).__name__
        raise UsageError(f"{path}: damaged or unsupported: {reason}", fix) from None


def _program(file: IO[bytes]) -> tuple[str, ...]:
    head = os.pread(file.fileno(), 8, 0)  # the program reads from where the descriptor is
    return next((program for magic, program in _PROGRAMS if head.startswith(magic)), ())
