"""A plain root filesystem is brought back whatever a run left in it, and nothing outside is touched."""

import io
import mmap
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.arms.engines.plain_root import PlainRoot
from kit.arms.image import Image, ImageCache
from kit.core.errors import KitError, RunError, UsageError
from kit.host.command import run
from kit.host.mounts import mount_of
from kit.host.safe_fs import remove

pytestmark = pytest.mark.unmeasured

_FILES = {"usr/lib/one": b"1", "usr/lib/two": b"2" * 5000, "usr/share/doc": b"d", "etc/passwd": b"root:x:0:0"}


def add(tar: tarfile.TarFile, name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", link: str = "") -> None:
    entry = tarfile.TarInfo(f"./{name}")
    entry.type, entry.size, entry.linkname = kind, len(data), link
    entry.mode = 0o755 if kind == tarfile.DIRTYPE else 0o640
    entry.uid, entry.gid, entry.mtime = os.geteuid(), os.getegid(), 1_000_000_000
    tar.addfile(entry, io.BytesIO(data))


def archive(path: Path, more: Callable[[tarfile.TarFile], None] = lambda tar: None) -> Image:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name in ("usr", "usr/lib", "usr/lib/deep", "usr/share", "etc", "tmp"):
            add(tar, name, tarfile.DIRTYPE)
        for name, data in _FILES.items():
            add(tar, name, data=data)
        add(tar, "usr/lib/same", tarfile.LNKTYPE, link="./usr/lib/one")
        add(tar, "lib", tarfile.SYMTYPE, link="usr/lib")
        more(tar)
    return Image("test", "d" * 64, "test", path.stat().st_size, 0, path)


@pytest.fixture
def root(tmp_path: Path) -> PlainRoot:
    return PlainRoot(archive(tmp_path / "rootfs.tar"), tmp_path / "root")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory of the host's with the image's names."""
    path = tmp_path / "outside"
    for name in ("one", "two", "same", "doc", "passwd", "deep/file", "lib/one", "share/doc"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("of the host")
    return path


def seen(path: Path) -> dict[str, tuple[int, int, int, str]]:
    """Names with mode, owner, number of links, and content or target."""
    found = {}
    for item in sorted(path.rglob("*")):
        stat = item.lstat()
        content = str(item.readlink()) if item.is_symlink() else "" if item.is_dir() else item.read_text()
        links = stat.st_nlink if item.is_file() and not item.is_symlink() else 0
        found[str(item.relative_to(path))] = (stat.st_mode, stat.st_uid, links, content)
    return found


def _rename(root: Path, outside: Path) -> None:
    (root / "usr").rename(root / "old")
    (root / "usr").symlink_to(outside)


def _replace_file(root: Path, outside: Path) -> None:
    (root / "usr/lib/one").unlink()
    (root / "usr/lib/one").mkdir()
    (root / "usr/lib/one/-rf").write_text("")
    (root / "usr/lib/one/up").symlink_to(outside)


def _replace_lib(root: Path, outside: Path) -> None:
    shutil.rmtree(root / "usr/lib")
    (root / "usr/lib").symlink_to(outside)


def _link_file(root: Path, outside: Path) -> None:
    (root / "etc/passwd").unlink()
    (root / "etc/passwd").symlink_to(outside / "passwd")
    (root / "etc/hosts").unlink()
    (root / "etc/hosts").symlink_to(outside / "doc")


def _odd_names(root: Path, outside: Path) -> None:
    for name in ("--checkpoint=1", f"new\n-C {outside}\none", os.fsdecode(b"\xff\xfe"), " ", "-C"):
        (root / "usr/lib" / name).write_text("") if "/" not in name else None
    (root / "usr/lib/one").write_text("changed")


def _all_gone(root: Path, outside: Path) -> None:
    for item in root.iterdir():
        item.unlink() if item.is_symlink() else shutil.rmtree(item)


def _modes(root: Path, outside: Path) -> None:
    (root / "usr/share").chmod(0o700)
    (root / "usr/lib/two").chmod(0o777)
    root.chmod(0o711)
    (root / "lib").unlink()
    (root / "lib").symlink_to(outside)


@pytest.mark.promise("a workload", "A run changes nothing of the root filesystem that the next run sees.")
@pytest.mark.parametrize("act", [_rename, _replace_file, _replace_lib, _link_file, _odd_names, _all_gone, _modes])
def test_all_is_brought_back_and_nothing_outside_is_touched(
    root: PlainRoot, outside: Path, act: Callable[[Path, Path], None]
) -> None:
    host, before, mode = seen(outside), seen(root.path), root.path.stat().st_mode
    act(root.path, outside)
    assert root.restore()
    assert seen(outside) == host
    assert seen(root.path) == before
    assert root.path.stat().st_mode == mode
    assert root.restore() == ()
    assert (root.path / "usr/lib/two").stat().st_mtime == 1_000_000_000
    assert (root.path / "usr/lib/one").samefile(root.path / "usr/lib/same")


@pytest.mark.promise("a workload", "A run changes nothing of the root filesystem that the next run sees.")
def test_a_store_through_a_mapping_is_brought_back_on_tmpfs(tmp_path: Path) -> None:
    """There it moves no time of a file whose page was read before."""
    shm = Path("/dev/shm")
    if mount_of(shm).type != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs")
    with tempfile.TemporaryDirectory(dir=shm) as memory:
        root = PlainRoot(archive(tmp_path / "rootfs.tar"), Path(memory) / "root")
        before, path = seen(root.path), root.path / "usr/lib/two"
        assert root.restore() == ()
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
            times = path.stat().st_mtime_ns, path.stat().st_ctime_ns
            assert pages[0] == ord("2")
            pages[0] = ord("3")
        assert (path.stat().st_mtime_ns, path.stat().st_ctime_ns) == times
        assert root.restore() == ("usr/lib/two",)
        assert seen(root.path) == before
        assert root.restore() == ()


def test_what_could_not_be_brought_back_is_tried_again_before_it_is_used(root: PlainRoot, tmp_path: Path) -> None:
    before = seen(root.path)
    root.check()
    (root.path / "usr/lib/two").write_text("changed")
    (tmp_path / "rootfs.tar").rename(tmp_path / "away")
    for again in (root.restore, root.check):
        with pytest.raises(RunError, match="can't be restored"):
            again()
    (tmp_path / "away").rename(tmp_path / "rootfs.tar")
    root.check()
    assert seen(root.path) == before


def test_names_of_an_image_are_no_options(tmp_path: Path, outside: Path) -> None:
    """A name with a line that begins with -C made tar read and write elsewhere."""
    odd = f"usr/lib/x\n-C{outside}\n./one"

    def more(tar: tarfile.TarFile) -> None:
        for depth in range(odd.count("/")):
            add(tar, "/".join(odd.split("/")[: depth + 1]), tarfile.DIRTYPE)
        add(tar, odd, data=b"odd")
        add(tar, os.fsdecode(b"usr/lib/\xff"), data=b"no text")
        add(tar, "usr/lib/--to-command=false", data=b"option")

    root = PlainRoot(archive(tmp_path / "rootfs.tar", more), tmp_path / "root")
    host, before = seen(outside), seen(root.path)
    for name in (odd, os.fsdecode(b"usr/lib/\xff"), "usr/lib/--to-command=false"):
        (root.path / name).write_text("changed")
    root.restore()
    assert seen(root.path) == before
    assert seen(outside) == host


@pytest.mark.promise("a workload", "Links in a tree, an image or sources lead root to no file of the host.")
@pytest.mark.parametrize("name", ["build", "kit-control", "kit-inputs", "dev", "proc", "sys"])
def test_an_image_whose_own_directories_lead_outside_is_refused(tmp_path: Path, outside: Path, name: str) -> None:
    image = archive(tmp_path / "rootfs.tar", lambda tar: add(tar, name, tarfile.SYMTYPE, link=str(outside)))
    with pytest.raises(KitError, match=f"/{name} "):
        PlainRoot(image, tmp_path / "root")


@pytest.mark.promise("a workload", "Links in a tree, an image or sources lead root to no file of the host.")
def test_an_image_whose_etc_leads_outside_is_refused(tmp_path: Path, outside: Path) -> None:
    path = tmp_path / "rootfs.tar"
    with tarfile.open(path, "w") as tar:
        add(tar, "etc", tarfile.SYMTYPE, link=str(outside))
    with pytest.raises(KitError, match="/etc "):
        PlainRoot(Image("test", "d" * 64, "test", 1, 0, path), tmp_path / "root")
    assert not (outside / "hosts").exists()


def test_sparse_files_and_fifos_and_attributes_come_back(tmp_path: Path) -> None:
    made = tmp_path / "made"
    (made / "etc").mkdir(parents=True)
    with (made / "sparse").open("wb") as file:
        file.seek(1 << 20)
        file.write(b"end")
    os.mkfifo(made / "fifo", 0o604)
    (made / "noted").write_text("noted")
    os.setxattr(made / "noted", "user.kit", b"\0\xff=\n")
    words = ["tar", "--sparse", "--xattrs", "--xattrs-include=*", "-C", str(made), "-cf", str(tmp_path / "r.tar"), "."]
    assert os.spawnvp(os.P_WAIT, "tar", words) == 0
    root = PlainRoot(Image("test", "d" * 64, "test", 1, 0, tmp_path / "r.tar"), tmp_path / "root")
    before = {name: (root.path / name).lstat() for name in ("sparse", "fifo", "noted")}
    for name in before:
        (root.path / name).unlink()
    root.restore()
    for name, stat in before.items():
        now = (root.path / name).lstat()
        kept = ("st_mode", "st_uid", "st_size", "st_mtime_ns", "st_blocks")
        assert [getattr(now, key) for key in kept] == [getattr(stat, key) for key in kept], name
    assert (root.path / "sparse").read_bytes() == bytes(1 << 20) + b"end"
    assert os.getxattr(root.path / "noted", "user.kit") == b"\0\xff=\n"


#: One of each namespace (xattr(7)); cap_net_raw+p of linux/capability.h.
NAMED = {
    "security.capability": "\x01\0\0\x02\0\x20" + "\0" * 14,
    "security.selinux": "system_u:object_r:bin_t:s0",
    "security.ima": "digest",
    "trusted.kit": "t",
    "user.kit": "u",
}
RESTORE = """
import os, sys
from pathlib import Path
from kit.arms.engines.plain_root import PlainRoot
from kit.arms.image import Image
root = PlainRoot(Image("test", "d" * 64, "test", 1, 0, Path(sys.argv[1])), Path(sys.argv[2]))
for turn in range(2):
    print(*sorted(os.listxattr(root.path / "ping")))
    (root.path / "ping").unlink()
    root.restore()
"""


@pytest.mark.machine
@pytest.mark.parametrize(
    ("user", "kept"),
    [
        ([], ["security.capability", "trusted.kit", "user.kit"]),
        # Root of a user namespace may set no label, and nothing that is trusted: as where SELinux refuses labels.
        (["unshare", "--user", "--map-root-user"], ["security.capability", "user.kit"]),
    ],
    ids=["root", "mapped"],
)
def test_attributes_of_the_machines_policy_are_no_part_of_an_image(
    tmp_path: Path, user: list[str], kept: list[str]
) -> None:
    """An image from a machine with SELinux has its labels; restoring them failed."""
    with tarfile.open(tmp_path / "rootfs.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("etc", "tmp"):
            add(tar, name, tarfile.DIRTYPE)
        entry = tarfile.TarInfo("./ping")
        entry.mode, entry.pax_headers = 0o755, {f"SCHILY.xattr.{name}": value for name, value in NAMED.items()}
        tar.addfile(entry)
    words: list[str | Path] = [*user, sys.executable, "-c", RESTORE, tmp_path / "rootfs.tar", tmp_path / "root"]
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert [line.split() for line in done.stdout.splitlines()] == [kept] * 2, done.stderr


@pytest.mark.promise("a workload", "Links in a tree, an image or sources lead root to no file of the host.")
@pytest.mark.parametrize("name", ["build", "kit-control", "etc"])
def test_an_image_in_which_a_directory_of_the_kit_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    for directory in ("root/bin", "outside"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "root" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match=f"/{name} of image root is a symlink"):
        ImageCache(tmp_path / "cache").from_directory(tmp_path / "root")
    assert not ImageCache(tmp_path / "cache").list()


@pytest.mark.machine
def test_what_was_made_since_a_directory_was_opened_is_seen_on_btrfs(tmp_path: Path) -> None:
    """A descriptor of btrfs lists what was there when it was opened: the build tree was seen as a run's."""
    (tmp_path / "disk").touch()
    os.truncate(tmp_path / "disk", 200 << 20)
    run(["mkfs.btrfs", "-q", tmp_path / "disk"])
    (tmp_path / "mounted").mkdir()
    run(["mount", "-o", "loop", tmp_path / "disk", tmp_path / "mounted"])
    try:
        root = PlainRoot(archive(tmp_path / "rootfs.tar"), tmp_path / "mounted/root")
        assert root.restore() == ()
        _all_gone(root.path, tmp_path)
        assert "build" in root.restore()
        assert root.restore() == ()
    finally:
        run(["umount", tmp_path / "mounted"])


ACL = bytes.fromhex(
    "02000000" + "01000700ffffffff" + "02000700feff0000" + "04000500ffffffff" + "10000700ffffffff" + "20000500ffffffff"
)


def _flag(*words: str) -> Callable[[Path], object]:
    return lambda root: run(["chattr", *words[:-1], root / words[-1]])


def _access(root: Path) -> None:
    os.setxattr(root / "usr/share", "system.posix_acl_access", ACL)


def _default(root: Path) -> None:
    """Whatever is made there next has it, too."""
    for name in ("usr/lib", "usr/share"):
        os.setxattr(root / name, "system.posix_acl_default", ACL)
    (root / "usr/lib/two").unlink()


def _named(root: Path) -> None:
    for name in ("user.kit", "trusted.overlay.opaque", "trusted.overlay.redirect"):
        os.setxattr(root / "usr/lib/deep", name, b"y")


def _time(root: Path) -> None:
    os.utime(root / "usr/lib/deep", ns=(10**18, 10**18))


def _entry(root: Path) -> None:
    """The time of a directory changes with what is made in it, and removed."""
    (root / "usr/lib/deep/new").touch()
    (root / "usr/lib/deep/new").unlink()


def _locked(root: Path) -> None:
    """Nothing in it can be made, removed or changed."""
    (root / "usr/lib/deep/new").touch()
    (root / "usr/lib/one").write_text("changed")
    (root / "usr/lib/two").write_text("changed")
    run(["chattr", "+a", root / "usr/lib/two"])
    run(["chattr", "+i", root / "usr/lib/one", root / "usr/lib/deep/new", root / "usr/lib/deep", root / "usr/lib"])
    run(["chattr", "+i", root / "usr", root])


def listed(path: Path) -> dict[str, object]:
    """Everything that a run could find of a directory and what is in it."""
    found: dict[str, object] = {}
    for item in [path, *sorted(path.rglob("*"))]:
        info = item.lstat()
        names = os.listxattr(item, follow_symlinks=False)
        named = {name: os.getxattr(item, name, follow_symlinks=False) for name in names}
        flags = "" if item.is_symlink() else run(["lsattr", "-d", item]).split()[0].replace("I", "-")
        found[str(item.relative_to(path))] = info.st_mode, info.st_uid, info.st_mtime_ns, named, flags
    return found


@pytest.fixture(params=["ext4", "xfs", "btrfs"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A filesystem of each type, mounted."""
    (tmp_path / "disk").touch()
    os.truncate(tmp_path / "disk", 400 << 20)
    run([f"mkfs.{request.param}", "-q", tmp_path / "disk"])
    (tmp_path / "mounted").mkdir()
    run(["mount", "-o", "loop", tmp_path / "disk", tmp_path / "mounted"])
    yield tmp_path / "mounted"
    run(["umount", tmp_path / "mounted"])


@pytest.mark.promise("a workload", "A run changes nothing of the root filesystem that the next run sees.")
@pytest.mark.machine
def test_attributes_flags_and_times_of_directories_do_not_reach_the_next_run(tmp_path: Path, disk: Path) -> None:
    root = PlainRoot(archive(tmp_path / "rootfs.tar"), disk / "root")
    before = listed(root.path)
    btrfs = run(["stat", "-f", "-c", "%T", disk]).strip() == "btrfs"
    sync = _flag("-R", "+S", "usr") if not btrfs else _flag("+C", "usr/lib")  # what is made there next inherits either
    for act in (_access, _default, _named, _time, _entry, sync, _flag("+i", "usr/share"), _flag("+A", "usr"), _locked):
        act(root.path)
        assert root.restore(), act
        assert listed(root.path) == before, act
        assert root.restore() == ()


@pytest.mark.promise("a workload", "What a workload forbids to remove is removed, or named, and sessions go on.")
@pytest.mark.machine
def test_what_may_not_be_removed_is(disk: Path) -> None:
    """A workload that set a flag stopped all later sessions."""
    (disk / "tree/a/b").mkdir(parents=True)
    for name in ("tree/a/b/file", "tree/a/log", "tree/top"):
        (disk / name).touch()
    os.mkfifo(disk / "tree/a/b/fifo")
    (disk / "outside").touch()
    (disk / "tree/a/link").symlink_to(disk / "outside")
    run(["chattr", "+a", disk / "tree/a/log"])
    names = ("tree/a/b/file", "tree/a/b", "tree/a", "tree", "tree/top", "outside")
    run(["chattr", "+i", *(disk / name for name in names)])
    remove(disk / "tree")
    assert not (disk / "tree").exists() and "i" in run(["lsattr", disk / "outside"]).split()[0]
    run(["chattr", "-i", disk / "outside"])
