"""Copies that run at once share a plain root, and each has the directories in which programs leave things."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from kit.arms.engines.backing_root import BackingRoot
from kit.arms.filesystem import Backing
from kit.arms.image import Image

pytestmark = pytest.mark.unmeasured


def image(path: Path, outside: Path) -> Image:
    """Symlinks of it lead to a directory of the host's, and to one of its own."""
    with tarfile.open(path, "w") as tar:
        for name in ("tmp", "etc", "usr", "usr/home"):
            entry = tarfile.TarInfo(f"./{name}")
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            entry.uid, entry.gid = os.geteuid(), os.getegid()
            tar.addfile(entry)
        for name, target in (("root", str(outside)), ("var", str(outside)), ("home", "usr/home")):
            entry = tarfile.TarInfo(f"./{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        entry = tarfile.TarInfo("./tmp/file")
        entry.size, entry.uid, entry.gid = 1, os.geteuid(), os.getegid()
        tar.addfile(entry, io.BytesIO(b"x"))
    return Image("test", "d" * 64, "test", path.stat().st_size, 0, path)


def test_no_symlink_of_an_image_leads_a_copys_own_directory_to_the_host(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "tmp").mkdir(parents=True)
    (outside / "tmp/marker").write_text("of the host")
    backing = tmp_path / "backing"
    backing.mkdir()
    given = image(tmp_path / "rootfs.tar", outside)
    shared = BackingRoot(Backing("fake", backing, "fake", "fake", "", None), given, None, group="copies")
    shared.unpack_root()
    with shared.used_root() as (root, own):
        assert list(own.values()) == ["/tmp"]
        (copy,) = own
        assert not copy.is_symlink() and copy.stat().st_mode & 0o7777 == 0o1777
        assert (copy / "file").read_bytes() == b"x" and (root / "tmp/file").exists()
    assert (outside / "tmp/marker").read_text() == "of the host"
    assert not [path for path in backing.iterdir() if path.name != "root"]
