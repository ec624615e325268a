"""Files are given up in the page cache, and read into it."""

import errno
import os
from pathlib import Path

import pytest

from kit.session.setup.caches import forget_below, read_below


def cached(path: Path) -> bool:
    """Whether a read finds its beginning without asking the disk (preadv2(2), RWF_NOWAIT)."""
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(4096)], 0, os.RWF_NOWAIT) > 0
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                pytest.skip(f"the filesystem of {path.parent} can't say what it holds in memory")
            assert error.errno == errno.EAGAIN
            return False


def test_what_is_given_up_is_gone_until_it_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    files = [tmp_path / "one", tmp_path / "below" / "two"]
    for path in files:
        path.write_bytes(os.urandom(100_000))
        with path.open("rb") as file:
            os.fsync(file.fileno())
    assert all(map(cached, files))
    forget_below(tmp_path)
    assert not any(map(cached, files))
    read_below(tmp_path)
    assert all(map(cached, files))
