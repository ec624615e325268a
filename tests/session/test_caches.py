"""Files are given up in the page cache, and read into it."""

import ctypes
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.host.mounts import mount_of
from kit.session.setup.caches import forget_below, read_below

_LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory whose pages can be dropped: Debian 13's /tmp is a tmpfs."""
    if mount_of(tmp_path).type != "tmpfs":
        yield tmp_path
    elif mount_of(Path("/var/tmp")).type == "tmpfs":
        pytest.skip("needs a directory on a disk: /var/tmp is a tmpfs")
    else:
        with tempfile.TemporaryDirectory(prefix="kit-test-", dir="/var/tmp") as directory:
            yield Path(directory)


def cached(path: Path) -> bool:
    """Whether the page cache has the first page (mincore(2)). A read with RWF_NOWAIT may fetch it from the disk."""
    resident = ctypes.c_ubyte()
    with path.open("rb") as file, mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE) as pages:
        first = ctypes.c_char.from_buffer(pages)
        failed = _LIBC.mincore(ctypes.byref(first), ctypes.c_size_t(mmap.PAGESIZE), ctypes.byref(resident))
        del first
    assert not failed, os.strerror(ctypes.get_errno())
    return bool(resident.value & 1)


def test_what_is_given_up_is_gone_until_it_is_read_again(on_disk: Path) -> None:
    (on_disk / "below").mkdir()
    files = [on_disk / "one", on_disk / "below" / "two"]
    for path in files:
        path.write_bytes(os.urandom(100_000))
        with path.open("rb") as file:
            os.fsync(file.fileno())
    assert all(map(cached, files))
    forget_below(on_disk)
    assert not any(map(cached, files))
    read_below(on_disk)
    assert all(map(cached, files))


def test_files_of_one_name_size_and_time_are_all_read(on_disk: Path) -> None:
    """Hundreds of files of Debian's images have name, size and time of another one."""
    files = [on_disk / directory / "copyright" for directory in "abc"]
    for path in files:
        path.parent.mkdir()
        path.write_bytes(os.urandom(100_000))
        os.utime(path, (1_000_000_000, 1_000_000_000))
        with path.open("rb") as file:
            os.fsync(file.fileno())
    forget_below(on_disk)
    assert not any(map(cached, files))
    read_below(on_disk)
    assert all(map(cached, files))


def test_a_sparse_file_is_not_read(tmp_path: Path) -> None:
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(100 << 20)
    read_below(tmp_path)
    assert not cached(sparse)


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.skipif(not shutil.which("mkfs.erofs"), reason="no mkfs.erofs")
def test_a_compressed_file_of_erofs_is_read(tmp_path: Path) -> None:
    source, where = tmp_path / "source", tmp_path / "where"
    source.mkdir()
    where.mkdir()
    (source / "text").write_bytes(b"compresses well\n" * 100_000)
    subprocess.run(["mkfs.erofs", "-zlz4", tmp_path / "image", source], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop,ro", tmp_path / "image", where], check=True)
    try:
        text = where / "text"
        assert text.stat().st_blocks * 512 < text.stat().st_size // 2
        forget_below(where)
        assert not cached(text)
        read_below(where)
        assert cached(text)
    finally:
        subprocess.run(["umount", where], check=True)
