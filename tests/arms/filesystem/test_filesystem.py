"""Filesystem profiles: what they say, what the kernel made of them, and the one in memory that is written back."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.arms.filesystem import (
    Backing,
    BackingOptions,
    bundled,
    find_profile,
    make_backing,
    read_profiles,
    recorded,
    write_back,
)
from kit.arms.filesystem.backing import GIB
from kit.arms.filesystem.block import unmount
from kit.arms.filesystem.mounted import not_in_force, unconfirmed
from kit.arms.filesystem.profile import parse_profiles
from kit.core.errors import MachineError, RunError, UsageError
from kit.host.command import run
from kit.host.kernel_part import filesystem_part, is_ready
from kit.host.mounts import Mount, mount_of
from kit.host.namespace import enter_private_mounts
from kit.host.recovery.journal import Journal
from kit.session.setup.cleanups import CLEANUPS
from tests.waiting import wait_until

pytestmark = pytest.mark.unmeasured

BTRFS = Mount("0:44", Path("/x"), "btrfs", "/dev/loop7", "rw,relatime,rw,nodatasum,nodatacow,compress=zstd:3")


def test_profiles_of_ones_own_replace_and_add(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[ext4]\ntype = "ext4"\nmount = ["noatime"]\n[fast]\ntype = "tmpfs"\nwrite_back = "xfs"\nevery = 5\n'
    )
    found = read_profiles(path)
    assert found["ext4"].mount == ("noatime",) and found["fast"].every == 5
    again = recorded(tuple((name, profile.text) for name, profile in found.items()))
    assert again == found  # a resumed session has the same
    options = BackingOptions(profiles={**bundled(), **found}, mount=(("ext4", "commit=9,nobarrier"),))
    assert options.mount_options(find_profile("ext4", options)) == ("noatime", "commit=9", "nobarrier")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a]\nmount = 3\ntype = 'ext4'", "a.mount is not usable"),
        ("[a]\nnope = 'x'\ntype = 'ext4'", "a.nope is not usable"),
        ("[a]\nsummary = 'x'", "a lacks the key 'type'"),
        ("[a]\ndelay = -1\ntype = 'nfs'", "a.delay is not usable"),
        ("a = 3", "a is not a table"),
        ("[a", "not valid TOML"),
    ],
)
def test_bad_profiles_name_the_key(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_profiles(text, "mine.toml")


def test_a_server_exports_a_disk() -> None:
    text = '[far]\ntype = "nfs"\nserver = "{}"\ndelay = 0.5\n[near]\ntype = "nfs"\nserver = "ext4"'
    profiles = {**bundled(), **parse_profiles(text.format("xfs"), "x")}
    assert find_profile("far", BackingOptions(profiles=profiles)).delay == 0.5
    for name in ("tmpfs", "tmpfs-sync", "near", "dir"):
        profiles = {**bundled(), **parse_profiles(text.format(name), "x")}
        with pytest.raises(UsageError, match=f"far: {name} is not a disk"):
            find_profile("far", BackingOptions(profiles=profiles))


def test_unknown_names_and_types() -> None:
    with pytest.raises(UsageError, match="unknown filesystem 'nope'"):
        find_profile("nope", BackingOptions())
    odd = parse_profiles('[odd]\ntype = "ntfs"\n[behind]\ntype = "tmpfs"\nwrite_back = "nope"', "x")
    for name, says in (("odd", "unknown type 'ntfs'"), ("behind", "unknown filesystem 'nope'")):
        with pytest.raises(UsageError, match=says):
            find_profile(name, BackingOptions(profiles=odd))


def test_what_the_kernel_shows_confirms_contradicts_or_says_nothing() -> None:
    assert unconfirmed("x", ("nodatacow", "compress=zstd", "size=3G"), BTRFS) == ()
    assert unconfirmed("x", ("autodefrag",), BTRFS) == ("autodefrag",)
    for option, shown in (("datacow", "nodatacow"), ("compress=lzo", "compress=zstd:3")):
        with pytest.raises(MachineError, match=f"ignores the mount option {option}: it shows {shown}"):
            unconfirmed("x", (option,), BTRFS)


@pytest.mark.parametrize(
    ("parameters", "shown", "wanted", "ignored"),
    [
        ("NNN", "redirect_dir=on", "redirect_dir=on", ""),
        ("NNN", "", "redirect_dir=on", "redirect_dir=on"),
        ("YNN", "", "redirect_dir=on", ""),
        ("YNN", "redirect_dir=nofollow", "redirect_dir=on", "redirect_dir=on"),
        ("YNN", "", "redirect_dir=off", "redirect_dir=off"),
        ("NNN", "", "redirect_dir=off", ""),
        ("NNN", "", "redirect_dir=nofollow", "redirect_dir=nofollow"),  # it follows
        ("NYN", "", "index=on", ""),
        ("NYN", "", "index=off", "index=off"),
        ("NYN", "index=off", "index=off", ""),
        ("NNN", "metacopy=on,redirect_dir=on", "metacopy=on", ""),
        ("NNN", "", "metacopy=on", "metacopy=on"),
        ("NNN", "", "xino=on", ""),
        ("NNN", "xino=off", "xino=on", "xino=on"),
        ("NNN", "", "volatile", "volatile"),
        ("NNN", "volatile", "volatile", ""),
        ("NNN", "fsync=volatile", "volatile", ""),
    ],
)
def test_overlay_shows_what_differs_from_the_modules_parameters(
    tmp_path: Path, parameters: str, shown: str, wanted: str, ignored: str
) -> None:
    for name, value in zip(
        ("redirect_dir", "index", "metacopy", "redirect_always_follow"), f"{parameters}Y", strict=True
    ):
        (tmp_path / name).write_text(f"{value}\n")
    mount = Mount("0:44", Path("/x"), "overlay", "overlay", ",".join(filter(None, ("rw,relatime,lowerdir=/l", shown))))
    assert not_in_force((wanted,), mount, tmp_path) == ((ignored,) if ignored else ())


@pytest.mark.machine
@pytest.mark.parametrize("wanted", ["redirect_dir=on", "redirect_dir=off", "index=on", "index=off", "metacopy=on",
                                    "metacopy=off", "xino=on", "xino=off", "volatile"])  # fmt: skip
def test_what_this_kernels_overlay_was_given_is_in_force(tmp_path: Path, wanted: str) -> None:
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    words = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work,{wanted}"
    run(["mount", "-t", "overlay", "-o", words, "overlay", tmp_path / "merged"])
    try:
        assert not_in_force((wanted,), mount_of(tmp_path / "merged")) == ()
    finally:
        unmount(tmp_path / "merged")


def used(path: Path) -> int:
    """Return the bytes in use on a filesystem."""
    stat = os.statvfs(path)
    return stat.f_frsize * (stat.f_blocks - stat.f_bfree)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    enter_private_mounts()
    journal = Journal(tmp_path / "journal" / "run.jsonl", CLEANUPS)
    yield journal
    journal.close()


def small(tmp_path: Path, **more: object) -> BackingOptions:
    return BackingOptions(size=GIB, images=tmp_path / "loops", **more)  # type: ignore[arg-type]


@pytest.mark.machine
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ext4-tuned", {"noatime", "nobarrier", "data=writeback", "commit=300"}),
        ("ext3-journal", {"data=journal"}),
        ("xfs-stripe", {"sunit=128", "swidth=512", "inode64"}),
        ("btrfs-compress", {"compress=zstd:3"}),
        ("btrfs-nodatacow", {"nodatacow"}),
    ],
)
def test_profiles_are_mounted_as_they_say(journal: Journal, tmp_path: Path, name: str, shown: set[str]) -> None:
    with make_backing(name, small(tmp_path), tmp_path / "run" / "fs" / name, "run", journal) as backing:
        assert shown <= set(backing.options.split(","))
        assert backing.unconfirmed == ()


@pytest.mark.machine
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("xfs-nobarrier", "this kernel does not mount xfs with nobarrier"),
        ("jfs", "this kernel has no jfs"),
        ("reiserfs", "this kernel has no reiserfs"),
        ("nfs", "this kernel has no nfs"),
    ],
)
def test_what_this_kernel_refuses_is_said(journal: Journal, tmp_path: Path, name: str, reason: str) -> None:
    if is_ready(filesystem_part(name)):
        pytest.skip(f"this kernel has {name}")
    with (
        pytest.raises(MachineError, match=reason),
        make_backing(name, small(tmp_path), tmp_path / "run" / "fs" / name, "run", journal),
    ):
        pytest.fail("it was mounted")


@pytest.mark.machine
def test_an_option_that_is_ignored_is_no_profile(journal: Journal, tmp_path: Path) -> None:
    odd = parse_profiles('[odd]\ntype = "ext4"\nmount = ["data=ordered"]\nexpect = ["journal=fast"]', "x")
    options = small(tmp_path, profiles=odd)
    with (
        pytest.raises(MachineError, match="ignores the mount option journal=fast: it does not show it"),
        make_backing("odd", options, tmp_path / "run" / "fs" / "odd", "run", journal),
    ):
        pytest.fail("it was mounted")


@pytest.fixture
def xfs(journal: Journal, tmp_path: Path) -> Iterator[Backing]:
    with make_backing("xfs", small(tmp_path), tmp_path / "run" / "fs" / "xfs", "run", journal) as backing:
        backing.sync()
        yield backing


@pytest.mark.machine
def test_the_space_of_removed_files_is_free_after_a_sync(xfs: Backing) -> None:
    """XFS frees removed files in the background. A file of many extents takes it longest."""
    before = used(xfs.path)
    fragmented = xfs.path / "fragmented"
    with fragmented.open("wb") as file:
        for start in range(0, 192 << 20, 16 << 10):
            os.posix_fallocate(file.fileno(), start, 4096)
    xfs.sync()
    assert used(xfs.path) - before > 40 << 20
    fragmented.unlink()
    xfs.sync()
    assert used(xfs.path) - before < 1 << 20


@pytest.mark.machine
def test_what_xfs_has_preallocated_is_no_data_of_a_run(xfs: Backing) -> None:
    """It preallocates behind the end of files to which programs append again and again."""
    before = used(xfs.path)
    for number in range(100):
        for _ in range(20):
            with (xfs.path / f"log{number}").open("ab") as file:
                file.write(bytes(5000))
    xfs.sync()
    assert 10_000_000 <= used(xfs.path) - before < 13 << 20


@pytest.mark.machine
def test_memory_is_on_the_disk_after_a_sync(journal: Journal, tmp_path: Path) -> None:
    where = tmp_path / "run" / "fs" / "tmpfs-sync"
    with make_backing("tmpfs-sync", small(tmp_path), where, "run", journal) as backing:
        (backing.path / "deep").mkdir()
        (backing.path / "deep" / "file").write_text("kept")
        backing.sync()
        copy = where.with_name("tmpfs-sync-copy")
        assert (copy / "deep" / "file").read_text() == "kept"
        assert backing.device and "written back every 30 s to ext4" in backing.kind
        (backing.path / "deep" / "file").unlink()
        backing.sync()
        assert not (copy / "deep" / "file").exists()


@pytest.mark.machine
def test_memory_whose_program_is_killed_is_dead(journal: Journal, tmp_path: Path) -> None:
    where = tmp_path / "run" / "fs" / "tmpfs-sync"
    with make_backing("tmpfs-sync", small(tmp_path), where, "run", journal) as backing:
        assert backing.alive() == ""
        backing.check_alive()
        os.kill(int(run(["pgrep", "--full", f"write_back.py {where} "])), signal.SIGKILL)
        wait_until(backing.alive)
        with pytest.raises(RunError, match=r"writes the tmpfs back died \(killed by signal 9\): see session.log"):
            backing.sync()
    assert not where.is_mount()


@pytest.mark.machine
def test_memory_is_written_back_when_the_kit_is_killed(tmp_path: Path) -> None:
    source, copy = tmp_path / "memory", tmp_path / "copy"
    source.mkdir()
    copy.mkdir()
    words = [sys.executable, "-I", write_back.__file__, str(source), str(copy), "3600"]
    # A parent that holds the pipe as the kit does, and is killed without a chance to say anything.
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({words!r}, stdin=subprocess.PIPE, start_new_session=True)\n"
        "print(child.pid, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        writer = int(parent.stdout.readline())
        for number in range(200):
            (source / str(number)).write_text("x" * 5000)
        parent.kill()
    wait_until(lambda: not Path(f"/proc/{writer}").exists(), 30)
    assert sorted(os.listdir(copy)) == sorted(os.listdir(source))
    assert all((copy / name).read_text() == "x" * 5000 for name in os.listdir(source))


@pytest.mark.machine
def test_labels_of_the_machines_policy_are_not_copied(tmp_path: Path) -> None:
    """SELinux may refuse them on the disk; rsync then reported a failure, and the copy was taken for a broken one."""
    for name in ("memory", "copy"):
        (tmp_path / name).mkdir()
    (tmp_path / "memory/file").touch()
    for name in ("security.selinux", "trusted.kit", "user.kit"):
        os.setxattr(tmp_path / "memory/file", name, b"x")
    assert write_back.copy(str(tmp_path / "memory"), str(tmp_path / "copy")) == "ok"
    assert sorted(os.listxattr(tmp_path / "copy/file")) == ["trusted.kit", "user.kit"]


@pytest.mark.machine
def test_each_file_of_the_copy_is_whole_when_the_writer_itself_is_killed(tmp_path: Path) -> None:
    source, copy = tmp_path / "memory", tmp_path / "copy"
    source.mkdir()
    copy.mkdir()
    words = [sys.executable, "-I", write_back.__file__, str(source), str(copy), "0.05"]
    size = 2_000_000
    with subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True) as writer:
        for turn in range(20):
            for name in "abcdefgh":
                part = source / f"{name}.part"
                part.write_text(f"{turn % 10}" * size)
                part.rename(source / name)
        os.killpg(writer.pid, signal.SIGKILL)
    for name in "abcdefgh":
        if (copy / name).exists():
            text = (copy / name).read_text()
            assert len(text) == size and len(set(text)) == 1, f"{name} is torn"
    assert (copy / "a").exists()
