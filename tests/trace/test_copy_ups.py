"""Tests of copy-ups, detected from an upper directory; without marks there, from the lower layers."""

import subprocess
from pathlib import Path

import pytest

from kit.host.mounts import parse_mounts
from kit.model.call import COPY_UP, Call
from kit.trace.copy_ups import Layers, copy_ups, entries, find_layers, from_home, parse_layers


def test_layers_of_mount_options() -> None:
    wanted = Layers(Path("/u"), (Path("/a"), Path("/b")), True)
    assert parse_layers("rw,lowerdir=/a:/b,upperdir=/u,workdir=/w", True) == wanted
    assert parse_layers("rw,lowerdir+=/a,lowerdir+=/b,upperdir=/u", True) == wanted
    assert parse_layers("ro,lowerdir=/a:/b", True) is None


def test_directories_of_many_layers_are_named_from_where_docker_mounts_them(tmp_path: Path) -> None:
    (tmp_path / "7" / "diff").mkdir(parents=True)
    relative = Layers(Path("7/diff"), (Path("l/A"), Path("l/B")), True)
    found = Layers(tmp_path / "7" / "diff", (tmp_path / "l/A", tmp_path / "l/B"), True)
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
    before = frozenset(entry.inode() for entry in entries(upper))
    (upper / "d").mkdir()
    (upper / "d" / "file").write_bytes(bytes(1200))  # copied, then more was written
    (upper / "d" / "made here").write_bytes(bytes(99))
    (upper / "link").symlink_to("nowhere")
    found = list(copy_ups(Layers(upper, (tmp_path / "none", lower), False), before))
    assert found == [Call("file", 1, bytes=1000, kind=COPY_UP), Call("directory", 1, kind=COPY_UP)]
    assert list(copy_ups(Layers(upper, (lower,), True), before)) == []  # nothing is noted as a copy


def test_a_tree_may_be_deeper_than_calls_go(tmp_path: Path) -> None:
    deep = "/".join("d" * 1_500)
    subprocess.run(["mkdir", "-p", deep], cwd=tmp_path, check=True)
    try:
        assert sum(1 for _ in entries(tmp_path)) == 1_500
    finally:
        subprocess.run(["rm", "-r", "d"], cwd=tmp_path, check=True)
