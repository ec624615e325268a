"""What is removed below a directory that somebody else could write: on real directories, symlinks and mounts."""

import os
import resource
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kit.arms.engines.backing_root import BackingRoot, unpack_tree
from kit.arms.filesystem import Backing
from kit.core.errors import RunError
from kit.extra.guest.host import _bring_logs, copy_logs
from kit.host.command import run
from kit.host.mounts import mount_of
from kit.host.safe_fs import remove, scratch, unpack
from kit.session.measure.context import MachineLease
from kit.session.measure.phase_log import MOST_LOG

pytestmark = pytest.mark.unmeasured


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory of the host's that nothing may touch."""
    path = tmp_path / "outside"
    (path / "sub").mkdir(parents=True)
    (path / "sub/precious").write_text("kept")
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    (path / "a/b").mkdir(parents=True)
    (path / "a/b/file").write_text("")
    return path


@pytest.mark.promise("a workload", "Links in a tree, an image or sources lead root to no file of the host.")
def test_symlinks_are_removed_and_not_followed(tree: Path, outside: Path) -> None:
    (tree / "a/link").symlink_to(outside)
    (tree / "a/b/up").symlink_to("../../../outside/sub/precious")
    (tree / "loop").symlink_to("loop")
    remove(tree)
    assert not os.path.lexists(tree)
    assert (outside / "sub/precious").read_text() == "kept"


def test_a_symlink_in_the_place_of_the_tree_goes_alone(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "tree").symlink_to(outside)
    remove(tmp_path / "tree")
    assert not os.path.lexists(tmp_path / "tree")
    assert (outside / "sub/precious").exists()


def test_what_is_not_there_is_removed_already(tmp_path: Path) -> None:
    remove(tmp_path / "nothing")
    remove(tmp_path / "no/such/parent")


@pytest.mark.parametrize("path", ["/", "..", "."])
def test_no_directory_by_a_name_that_is_none(path: str) -> None:
    with pytest.raises(ValueError, match="not an entry"):
        remove(Path(path))


def test_names_that_are_no_text(tree: Path) -> None:
    for name in (b"\xff\xfe", b"new\nline", b"-rf", b"\xc3("):
        directory = tree / os.fsdecode(name)
        directory.mkdir()
        (directory / "-C").write_text("")
    remove(tree)
    assert not tree.exists()


def test_directories_that_forbid_everything(tree: Path) -> None:
    (tree / "a/b").chmod(0)
    (tree / "a").chmod(0o500)
    remove(tree)
    assert not tree.exists()


def test_a_tree_deeper_than_any_path_recursion_or_number_of_descriptors(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for name in ("tree", *["a-directory-of-some-length"] * 1200):
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))  # earlier tests of this process may have left some open
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 50, hard))
    try:
        remove(tmp_path / "tree")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not (tmp_path / "tree").exists()


def test_no_descriptor_is_left_open(tree: Path) -> None:
    before = os.listdir("/proc/self/fd")
    remove(tree)
    assert os.listdir("/proc/self/fd") == before


@pytest.fixture
def mounts() -> Iterator[list[Path]]:
    """Mount points that are unmounted in the end."""
    points: list[Path] = []
    yield points
    for point in reversed(points):
        run(["umount", point])


@pytest.mark.promise("a workload", "Nothing behind a mount that a workload has left is removed.")
@pytest.mark.machine
@pytest.mark.parametrize("at", ["a/b", "a", "."])
def test_never_behind_a_bind_mount_of_the_same_filesystem(
    tree: Path, outside: Path, mounts: list[Path], at: str
) -> None:
    point = tree / at
    run(["mount", "--bind", outside, point])
    mounts.append(point)
    assert point.stat().st_dev == outside.parent.stat().st_dev
    with pytest.raises(RunError, match=f"is mounted at {point}"):
        remove(tree)
    assert (outside / "sub/precious").read_text() == "kept"


@pytest.mark.machine
def test_what_a_builder_has_left_mounted_in_its_scratch_directory_is_kept(
    tmp_path: Path, outside: Path, mounts: list[Path]
) -> None:
    with pytest.raises(RunError, match="is mounted at"), scratch(tmp_path) as made:
        (made / "proc").mkdir()
        run(["mount", "--bind", outside, made / "proc"])
        mounts.append(made / "proc")
    assert (outside / "sub/precious").read_text() == "kept"


def test_a_scratch_directory_is_the_users_alone_and_goes_with_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(KeyError), scratch(tmp_path) as made:
        assert made.parent == tmp_path and made.stat().st_mode & 0o777 == 0o700
        (made / "a/b").mkdir(parents=True)
        raise KeyError
    assert not made.exists()


@pytest.mark.promise("a workload", "Nothing behind a mount that a workload has left is removed.")
@pytest.mark.machine
def test_never_a_file_behind_a_mount(tree: Path, outside: Path, mounts: list[Path]) -> None:
    run(["mount", "--bind", outside / "sub/precious", tree / "a/b/file"])
    mounts.append(tree / "a/b/file")
    with pytest.raises(RunError, match=f"is mounted at {tree}/a/b/file"):
        remove(tree)
    assert (outside / "sub/precious").read_text() == "kept"


_SWAP = """
import os, sys
tree, outside = sys.argv[1:]
while True:
    try:
        os.rename(tree + "/a", tree + "/hidden")
        os.symlink(outside, tree + "/a")
        os.unlink(tree + "/a")
        os.rename(tree + "/hidden", tree + "/a")
    except OSError:
        pass
"""


@pytest.mark.promise("a workload", "Links in a tree, an image or sources lead root to no file of the host.")
def test_a_directory_that_becomes_a_symlink_meanwhile(tmp_path: Path, outside: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    swapper = subprocess.Popen([sys.executable, "-c", _SWAP, str(tree), str(outside)])
    try:
        for _ in range(200):
            try:
                (tree / "a/sub").mkdir(parents=True, exist_ok=True)
                remove(tree / "a")
            except (RunError, OSError):
                continue  # it was no directory any more
    finally:
        swapper.kill()
        swapper.wait()
    assert (outside / "sub/precious").read_text() == "kept"


def tarball(path: Path, *names: str, link: tuple[str, str] = ("", "")) -> Path:
    """An archive of empty files, without members for their directories, and of one hard link."""
    with tarfile.open(path, "w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name))
        if link[0]:
            entry = tarfile.TarInfo(link[0])
            entry.type, entry.linkname = tarfile.LNKTYPE, link[1]
            tar.addfile(entry)
    return path


@pytest.mark.promise("a workload", "Links in a tree, an image or sources lead root to no file of the host.")
def test_sources_are_not_unpacked_through_a_symlink_in_the_place_of_the_tree(tmp_path: Path, outside: Path) -> None:
    """As an image has one whose /build is a symlink."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root/build").symlink_to(outside / "sub")
    with pytest.raises(RunError, match="root/build can't be filled: it is a symlink"):
        unpack_tree(tmp_path / "root/build", tarball(tmp_path / "src.tar", "precious"))
    assert (outside / "sub/precious").read_text() == "kept"


@pytest.mark.promise("a workload", "Links in a tree, an image or sources lead root to no file of the host.")
@pytest.mark.parametrize("absolute", [True, False])
def test_sources_are_not_unpacked_through_a_symlink_in_the_tree(
    tree: Path, tmp_path: Path, outside: Path, absolute: bool
) -> None:
    (tree / "a/src").symlink_to(outside if absolute else "../../outside")
    with pytest.raises(RunError, match="a/src is a symlink"):
        unpack(tarball(tmp_path / "src.tar", "x", "./a/src/sub/precious"), tree, what="sources")
    with pytest.raises(RunError, match="a/src is a symlink"):
        unpack(tarball(tmp_path / "src.tar", link=("stolen", "a/src/sub/precious")), tree, what="sources")
    assert (outside / "sub/precious").read_text() == "kept"
    assert not (tree / "stolen").exists()


def test_sources_take_the_place_of_a_symlink(tree: Path, tmp_path: Path, outside: Path) -> None:
    (tree / "precious").symlink_to(outside / "sub/precious")
    unpack(tarball(tmp_path / "src.tar", "precious", "a/b/new"), tree, what="sources")
    assert (tree / "precious").read_text() == ""
    assert (tree / "a/b/new").exists()
    assert (outside / "sub/precious").read_text() == "kept"


def test_symlinks_of_an_archive_lead_none_of_its_own_members_out(tmp_path: Path, outside: Path) -> None:
    with tarfile.open(tmp_path / "src.tar", "w") as tar:
        for name, target in (("absolute", str(outside)), ("upwards", "../outside")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
            tar.addfile(tarfile.TarInfo(f"{name}/sub/precious"))
        tar.addfile(tarfile.TarInfo("../outside/sub/precious"))
        tar.addfile(tarfile.TarInfo(f"{outside}/sub/precious"))
    (tmp_path / "tree").mkdir()
    with pytest.raises(RunError):
        unpack(tmp_path / "src.tar", tmp_path / "tree", what="sources")
    assert (outside / "sub/precious").read_text() == "kept"


def backing_root(path: Path) -> BackingRoot:
    return BackingRoot(Backing("dir", path, "directory", "ext4", "", None), None, None)


@pytest.mark.promise("a workload", "Nothing behind a mount that a workload has left is removed.")
@pytest.mark.machine
def test_what_a_run_left_mounted_in_its_tree_is_unmounted_and_kept(tmp_path: Path, outside: Path) -> None:
    with backing_root(tmp_path).tree() as tree:
        for name in ("a b", "c"):
            (tree / name).mkdir()
            run(["mount", "--bind", outside, tree / name])
        run(["mount", "-t", "tmpfs", "kit", tree / "c/sub"])
    assert not tree.exists()
    assert (outside / "sub/precious").read_text() == "kept"


@pytest.mark.promise("a guest", "A guest fills neither the memory nor the disk of the host.")
def test_logs_of_a_guest_are_plain_files_with_a_bound(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kit.extra.guest.host.MOST_LOG", 5)
    logs, target = tmp_path / "disk/data/logs/x", tmp_path / "target"
    logs.mkdir(parents=True)
    target.mkdir()
    (logs / "1 bare.log").write_text("0123456789")
    (logs / "session.log").write_text("said")
    (logs / "link.log").symlink_to(outside / "sub/precious")
    (logs / "dir").symlink_to(outside)
    os.mkfifo(logs / "fifo.log")
    copy_logs(tmp_path / "disk", "x", target)
    assert {path.name: path.read_text() for path in target.iterdir()} == {"1 bare.log": "01234", "guest.log": "said"}


@pytest.mark.parametrize("link", ["disk/data", "disk/data/logs", "disk/data/logs/x"])
def test_logs_of_a_guest_are_on_its_disk(tmp_path: Path, link: str) -> None:
    target = tmp_path / "target"
    for directory in (tmp_path / "host/logs/x", tmp_path / "host/x", target, (tmp_path / link).parent):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "session.log").write_text("the host's")
    (tmp_path / link).symlink_to(tmp_path / ("host/x" if link.endswith("x") else "host"))
    (tmp_path / "host/session.log").write_text("the host's")
    copy_logs(tmp_path / "disk", "x", target)
    assert [path.name for path in target.iterdir()] == ["session.log"]
    assert all(path.read_text() == "the host's" for path in (tmp_path / "host").rglob("session.log"))


@pytest.mark.promise("a guest", "A guest fills neither the memory nor the disk of the host.")
def test_logs_of_a_guest_take_no_more_room_than_they_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty sparse logs became 640 MiB."""
    logs, target = tmp_path / "disk/data/logs/x", tmp_path / "target"
    logs.mkdir(parents=True)
    target.mkdir()
    for number in range(40):
        with (logs / f"{number:02d}.log").open("wb") as file:
            file.truncate(1 << 40)
            file.seek(1 << 22)
            file.write(b"middle")
    assert copy_logs(tmp_path / "disk", "x", target) == 0
    assert sum(path.stat().st_blocks for path in target.iterdir()) * 512 <= 41 << 20
    assert {path.stat().st_size for path in target.iterdir()} == {MOST_LOG}
    assert (target / "07.log").read_bytes()[: (1 << 22) + 8] == bytes(1 << 22) + b"middle\0\0"
    for name in ("kit.extra.guest.host.MOST_LOGS", "kit.extra.guest.host.MOST_NAMES"):
        with monkeypatch.context() as patched:
            patched.setattr(name, 3)
            assert copy_logs(tmp_path / "disk", "x", target) == (39 if name.endswith("LOGS") else 37)
    (logs / "new\nline.log").touch()
    assert copy_logs(tmp_path / "disk", "x", target) == 1 and len(list(target.iterdir())) == 40


@pytest.mark.promise("a guest", "A guest's disk decides nothing of how the host mounts it.")
@pytest.mark.machine
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_disk_of_a_guest_does_not_say_how_it_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An ext4 may ask for a panic of the kernel that finds an error in it."""
    disk = tmp_path / "data.img"
    disk.touch()
    os.truncate(disk, 400 << 20)
    run([f"mkfs.{kind}", "-q", disk])
    if kind == "ext4":
        run(["tune2fs", "-e", "panic", "-o", "debug", disk])
    seen: list[str] = []
    monkeypatch.setattr("kit.extra.guest.host.copy_logs", lambda where, *_: seen.append(mount_of(where).options))
    lease = SimpleNamespace(setting=SimpleNamespace(session="x"), paths=SimpleNamespace(logs=tmp_path.joinpath))
    _bring_logs(disk, tmp_path / "mounted", cast(MachineLease, lease))
    assert len(seen) == (kind == "ext4") and not (tmp_path / "mounted").is_mount()
    wanted = {"nodev", "nosuid", "noexec"}
    assert not seen or (wanted <= {*seen[0].split(",")} and "panic" not in seen[0])
