"""What of an archive is not unpacked where arms run: device nodes, and programs that run as somebody else."""

import hashlib
import os
import shutil
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest

from kit.arms.engines.plain_root import PlainRoot
from kit.arms.image import Image, ImageCache
from kit.host.command import run
from kit.host.safe_fs import remove
from kit.model.scenario import Input
from kit.session.inputs.repack import repack
from tests.ordinary_user import NOBODY, ordinary_user

#: Name, type, what it links to. Overlay's whiteouts are devices, and are hard links of one another.
_DEVICES = [
    ("./dev/null", tarfile.CHRTYPE, ""),
    ("./usr/disk", tarfile.BLKTYPE, ""),
    ("./usr/lib/new\nline *", tarfile.CHRTYPE, ""),
    ("./srv/whiteout", tarfile.CHRTYPE, ""),
    ("./srv/another", tarfile.LNKTYPE, "./srv/whiteout"),
]
_FILES = ["./usr/lib/disk", "./usr/share/null", "./srv/kept", "./usr/lib/new\nline x"]


def archive(path: Path) -> Path:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name in ("./dev", "./etc", "./usr", "./usr/lib", "./usr/share", "./srv"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name, kind, link in _DEVICES:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.devmajor, entry.devminor, entry.mode = kind, link, 1, 3, 0o666
            tar.addfile(entry)
        for name in _FILES:
            entry = tarfile.TarInfo(name)
            entry.mode = 0o6755
            tar.addfile(entry)
    return path


def found(top: Path) -> dict[str, int]:
    return {f"./{path.relative_to(top)}": path.lstat().st_mode for path in top.rglob("*")}


@pytest.mark.parametrize("compress", [[], ["gzip"], ["xz"]])
def test_a_tarball_with_device_nodes_becomes_an_image_of_anybody(tmp_path: Path, compress: list[str]) -> None:
    """Only root could unpack them, and the files of other users."""
    tarball = archive(tmp_path / "root.tar")
    if compress:
        run([*compress, tarball])
        (tarball,) = tmp_path.glob("root.tar.*")
    with tempfile.TemporaryDirectory() as cache:  # pytest's lets no other user through
        directory = Path(cache)
        tarball = Path(shutil.copy(tarball, directory))
        if os.getuid() == 0:
            os.chown(directory, NOBODY, -1)
        with ordinary_user():
            image = ImageCache(directory / "cache").from_tarball(tarball)
            with tarfile.open(image.rootfs) as tar:
                members = {member.name: member for member in tar}
            assert set(_FILES) <= set(members)
            assert members["./srv/kept"].uid == 0 and members["./srv/kept"].mode == 0o6755
            remove(directory / "cache")


@pytest.mark.promise(
    "what others wrote", "Device nodes of images and inputs, and setuid bits of inputs, are not unpacked."
)
@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make device nodes")
def test_no_device_node_of_an_image_is_unpacked(tmp_path: Path) -> None:
    root = PlainRoot(Image("test", "d" * 64, "test", 1, 0, archive(tmp_path / "rootfs.tar")), tmp_path / "root")
    modes = found(root.path)
    assert not [name for name, mode in modes.items() if stat.S_ISCHR(mode) or stat.S_ISBLK(mode)]
    assert set(_FILES) <= set(modes) and not {name for name, *_ in _DEVICES} & set(modes)
    os.mknod(root.path / "usr/disk", stat.S_IFBLK | 0o666, os.makedev(7, 0))
    assert "usr/disk" in root.restore()
    assert set(found(root.path)) == set(modes)


@pytest.mark.promise(
    "what others wrote", "Device nodes of images and inputs, and setuid bits of inputs, are not unpacked."
)
def test_an_input_holds_neither_devices_nor_setuid_programs(tmp_path: Path) -> None:
    digest = repack(archive(tmp_path / "given.tar"), tmp_path / "made.tar", Input("src"))
    assert hashlib.sha256((tmp_path / "made.tar").read_bytes()).hexdigest() == digest
    (tmp_path / "made").mkdir()
    run(["tar", "-xpf", tmp_path / "made.tar", "-C", tmp_path / "made"])
    modes = found(tmp_path / "made")
    assert {name for name, mode in modes.items() if stat.S_ISREG(mode)} == set(_FILES)
    assert {stat.S_IMODE(modes[name]) for name in _FILES} == {0o755}
    assert not {name for name, *_ in _DEVICES} & set(modes)
