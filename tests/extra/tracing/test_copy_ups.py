"""Tests of copy-ups, detected from an upper directory; without marks there, from the lower layers."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kit.extra.tracing.copy_ups import (
    FUSE_OVERLAYFS,
    OVERLAY,
    Layers,
    copy_ups,
    entries,
    find_layers,
    from_home,
    handles,
    parse_layers,
)
from kit.extra.tracing.file_data import own_data
from kit.host.mounts import parse_mounts
from kit.model.sample import DIRECTORY, FILE


def test_layers_of_mount_options() -> None:
    wanted = Layers(Path("/u"), (Path("/a"), Path("/b")), OVERLAY)
    assert parse_layers("rw,lowerdir=/a:/b,upperdir=/u,workdir=/w", OVERLAY) == wanted
    assert parse_layers("rw,lowerdir+=/a,lowerdir+=/b,upperdir=/u", OVERLAY) == wanted
    assert parse_layers("ro,lowerdir=/a:/b", OVERLAY) is None


def test_directories_of_many_layers_are_named_from_where_docker_mounts_them(tmp_path: Path) -> None:
    (tmp_path / "7" / "diff").mkdir(parents=True)
    relative = Layers(Path("7/diff"), (Path("l/A"), Path("l/B")), OVERLAY)
    found = Layers(tmp_path / "7" / "diff", (tmp_path / "l/A", tmp_path / "l/B"), OVERLAY)
    assert from_home(relative, [Path("/"), tmp_path / "7" / "merged"]) == found
    assert from_home(found, [Path("/")]) == found and from_home(relative, []) == relative


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("- overlay overlay rw,lowerdir=/a,upperdir=/gone,workdir=/w", 1),
        ("- overlay overlay ro,lowerdir=/a:/b", 0),  # nothing is copied up
        ("- aufs none rw,si=4f", 1),
        ("- fuse.fuse-overlayfs fuse-overlayfs rw", 1),  # of a daemon that is not found
        ("- fuse.sshfs there:/ rw", 0),
        ("- ext4 /dev/vda rw", 0),
    ],
)
def test_a_union_whose_upper_directory_is_not_found_is_counted(line: str, wanted: int) -> None:
    (mount,) = parse_mounts(f"1 0 0:999999 / /merged rw,relatime {line}\n".encode())
    assert find_layers([mount]) == ((), wanted)


def test_a_new_file_above_a_lower_one_is_a_copy_up(tmp_path: Path) -> None:
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    for directory in (lower / "d", upper):
        directory.mkdir(parents=True)
    (lower / "d" / "file").write_bytes(bytes(1000))
    (lower / "old").write_bytes(bytes(10))
    (upper / "old").write_bytes(bytes(10))
    before = handles(upper)
    (upper / "d").mkdir()
    (upper / "d" / "file").write_bytes(bytes(1200))  # copied, then more was written
    (upper / "d" / "made here").write_bytes(bytes(99))
    (upper / "link").symlink_to("nowhere")
    try:
        os.setxattr(upper / "d" / "file", "user.fuseoverlayfs.origin", b"d/file")
    except OSError:
        pytest.skip("needs user attributes (user_xattr) in the directory for temporary files")
    layers = Layers(upper, (tmp_path / "none", lower), FUSE_OVERLAYFS)
    sizes = {call.name: (call.count, call.bytes) for call in copy_ups(layers, before) if call.name in (FILE, DIRECTORY)}
    assert sizes == {FILE: (1, 1000), DIRECTORY: (1, 0)}
    assert list(copy_ups(replace(layers, marks=OVERLAY), before)) == []  # nothing is marked as a copy


def test_a_filesystem_that_lists_no_extents_gives_no_data() -> None:
    """As ZFS."""
    assert own_data("/proc/self/status", 4096) is None


def test_a_tree_may_be_deeper_than_calls_go(tmp_path: Path) -> None:
    deep = "/".join("d" * 1_500)
    subprocess.run(["mkdir", "-p", deep], cwd=tmp_path, check=True)
    try:
        assert sum(1 for _ in entries(tmp_path)) == 1_500
    finally:
        subprocess.run(["rm", "-r", "d"], cwd=tmp_path, check=True)
