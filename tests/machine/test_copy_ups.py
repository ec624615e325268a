"""Copy-ups on real filesystems, in unions of the kernel and of fuse-overlayfs: what is counted, and its bytes."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.extra.tracing.copy_ups import copy_ups, find_layers, handles
from kit.host.command import which
from kit.host.mounts import mounts_below
from kit.host.namespace import enter_private_mounts
from kit.model.sample import DIRECTORY, FILE, NO_DATA, UNMARKED, WITH_DATA
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]
#: Files of the lower layer; those of two names come first.
LOWER = """
cd "$1"
mkdir lower upper work merged lower/directory
for name in two read replaced; do seq 9 > lower/$name; ln lower/$name lower/$name-too; done
for name in one mode replaced-one; do seq 9 > lower/$name; done
for number in $(seq 50); do echo abc > lower/directory/$number; done
ln -s one lower/link; ln -s one lower/replaced-link; mkfifo lower/fifo
head -c 32M /dev/urandom > lower/large
truncate -s 100M lower/sparse
sync -f .
"""
SIZE = 32 << 20
Counted = dict[str, tuple[int, float]]


@pytest.fixture
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A filesystem with the layers of a union. Its type is the parameter, ext4 without one."""
    kind = getattr(request, "param", "ext4")
    enter_private_mounts()
    mounted = tmp_path / "disk"
    mounted.mkdir()
    if kind == "tmpfs":
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1G", "kit-test", mounted], check=True)
    else:
        if not which(f"mkfs.{kind}"):
            pytest.skip(f"needs mkfs.{kind}")
        with (tmp_path / "image").open("wb") as image:
            image.truncate(700 << 20)
        subprocess.run([f"mkfs.{kind}", "-q", tmp_path / "image"], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", tmp_path / "image", mounted], check=True)
    try:
        subprocess.run(["sh", "-ec", LOWER, "sh", mounted], check=True)
        yield mounted
    finally:  # a daemon ends soon after its mount
        wait_until(lambda: subprocess.run(["umount", mounted], check=False, capture_output=True).returncode == 0)


def mount_union(disk: Path, option: str) -> None:
    layers = f"lowerdir={disk}/lower,upperdir={disk}/upper,workdir={disk}/work"
    if option == "fuse":
        if not shutil.which("fuse-overlayfs"):
            pytest.skip("needs fuse-overlayfs: apt-get install fuse-overlayfs")
        subprocess.run(["fuse-overlayfs", "-o", layers, disk / "merged"], check=True)
    else:
        words = ["mount", "-t", "overlay", "-o", f"{layers},{option}", "kit-test", str(disk / "merged")]
        subprocess.run(words, check=True)


def count(disk: Path, script: str, option: str = "index=off", before: str = ":") -> Counted:
    """Return the rows of copy-ups of a script, by name; ``before`` runs first, and is not counted."""
    mount_union(disk, option)
    try:
        (layers,), _ = find_layers(mounts_below(disk / "merged"))
        subprocess.run(["sh", "-ec", before], cwd=disk / "merged", check=True)
        known = handles(layers.upper)
        subprocess.run(["sh", "-ec", script], cwd=disk / "merged", check=True)
        return {call.name: (call.count, call.bytes) for call in copy_ups(layers, known)}
    finally:
        subprocess.run(["umount", disk / "merged"], check=True)
        subprocess.run(["sh", "-ec", "rm -r upper work; mkdir upper work"], cwd=disk, check=True)


@pytest.mark.parametrize("option", ["index=off", "fuse"])
def test_copies_that_get_the_inode_numbers_of_removed_files_count(disk: Path, option: str) -> None:
    created = "for number in $(seq 60); do echo > created-$number; done; sync -f ."
    copied = "rm created-*; for number in $(seq 50); do echo more >> directory/$number; done"
    counted = count(disk, copied, option, created)
    assert counted == {FILE: (50, 200), DIRECTORY: (1, 0), WITH_DATA: (50, 200)}


@pytest.mark.parametrize(
    ("disk", "large", "sparse"),
    [("ext4", SIZE, 0), ("xfs", 0, 0), ("btrfs", 0, 0), ("tmpfs", SIZE, 4096)],
    indirect=["disk"],
)
def test_data_of_a_clone_and_holes_are_not_copied(disk: Path, large: int, sparse: int) -> None:
    counted = count(disk, "echo more >> large; echo more >> sparse")
    assert counted[FILE] == (2, SIZE + (100 << 20)) and NO_DATA not in counted
    assert counted[WITH_DATA][0] == 2 and large <= counted[WITH_DATA][1] <= large + sparse


def test_a_daemon_copies_holes_as_data(disk: Path) -> None:
    assert count(disk, "echo more >> sparse", "fuse")[WITH_DATA] == (1, 100 << 20)


def test_what_was_cut_off_may_have_been_copied(disk: Path) -> None:
    counted = count(disk, "truncate -s 1M large")
    assert (counted[FILE], counted[WITH_DATA]) == ((1, SIZE), (1, SIZE))


@pytest.mark.parametrize("option", ["index=off", "index=on", "userxattr", "fuse"])
def test_copies_of_files_with_two_names_count(disk: Path, option: str) -> None:
    assert count(disk, "echo more >> one; echo more >> two; chmod go-r mode", option)[FILE] == (3, 54)


@pytest.mark.parametrize("option", ["index=off", "userxattr"])
def test_copies_of_links_and_pipes_count(disk: Path, option: str) -> None:
    """In a user namespace the kernel mounts with userxattr, which such files can't have."""
    assert count(disk, "echo more >> one; chown -h 1 link; chmod 600 fifo", option)[FILE] == (3, 18)


def test_a_copy_with_two_names_counts_once(disk: Path) -> None:
    assert count(disk, "echo more >> one; ln one other")[FILE] == (1, 18)


@pytest.mark.parametrize("option", ["index=off", "fuse"])
def test_files_created_where_a_lower_file_was_are_no_copies(disk: Path, option: str) -> None:
    assert count(disk, "rm replaced-one; echo new > replaced-one; echo new > new; mv new mode", option) == {}


def test_what_may_be_a_copy_is_named_so(disk: Path) -> None:
    """The copy of a file with two names, written and read, is like a file that was created."""
    changed = "echo more >> read; cat read > /dev/null; rm replaced; echo new > replaced"
    assert count(disk, changed) == {UNMARKED: (2, 0)}
    assert count(disk, "rm replaced-link; ln -s mode replaced-link", "userxattr") == {UNMARKED: (1, 0)}
