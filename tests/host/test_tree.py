"""What is written into, copied from and read in a tree that somebody else has made follows no symlink."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.core.errors import RunError
from kit.host.safe_fs import copy_directory, is_directory, new_file, open_file


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory of the host's that nothing may touch, or look into."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "file").write_text("of the host")
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    (path / "sub").mkdir(parents=True)
    (path / "sub/file").write_text("of the tree")
    return path


def _a_link_to_the_file(tree: Path, outside: Path) -> None:
    (tree / "sub/file").unlink()
    (tree / "sub/file").symlink_to(outside / "file")


def _a_dangling_link(tree: Path, outside: Path) -> None:
    (tree / "sub/file").unlink()
    (tree / "sub/file").symlink_to(outside / "new")


def _a_link_to_the_directory(tree: Path, outside: Path) -> None:
    (tree / "sub").rename(tree / "before")
    (tree / "sub").symlink_to(outside)


def _a_hard_link(tree: Path, outside: Path) -> None:
    (tree / "sub/file").unlink()
    (tree / "sub/file").hardlink_to(outside / "file")


def _a_pipe(tree: Path, outside: Path) -> None:
    (tree / "sub/file").unlink()
    os.mkfifo(tree / "sub/file")


LINKS = [_a_link_to_the_file, _a_dangling_link, _a_link_to_the_directory]


@pytest.mark.promise("a workload", "Links in a tree, an image or sources lead root to no file of the host.")
@pytest.mark.parametrize("change", [*LINKS, _a_hard_link, _a_pipe, lambda tree, outside: None])
def test_a_new_file_replaces_nothing_and_follows_no_link(
    tree: Path, outside: Path, change: Callable[[Path, Path], None]
) -> None:
    change(tree, outside)
    with pytest.raises(RunError, match=r"sub/file (exists already|can't be used)"):
        new_file(tree, "sub/file", b"of the kit")
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "of the host"


def test_a_new_file_has_its_mode_whatever_the_umask_is(tree: Path) -> None:
    before = os.umask(0o077)
    try:
        new_file(tree, "sub/new", b"of the kit", 0o755)
    finally:
        os.umask(before)
    assert (tree / "sub/new").read_text() == "of the kit" and (tree / "sub/new").stat().st_mode & 0o777 == 0o755


@pytest.mark.promise("a workload", "Links in a tree, an image or sources lead root to no file of the host.")
@pytest.mark.parametrize("change", [*LINKS, _a_pipe])
def test_a_file_is_read_where_no_link_leads_to_it(
    tree: Path, outside: Path, change: Callable[[Path, Path], None]
) -> None:
    with open_file(tree, "sub/file") as file:
        assert file.read() == b"of the tree"
    change(tree, outside)
    with pytest.raises(RunError, match="sub/file can't be used"), open_file(tree, "sub/file") as file:
        pytest.fail(file.read().decode())


@pytest.mark.promise("a workload", "Links in a tree, an image or sources lead root to no file of the host.")
def test_a_directory_is_copied_where_no_link_leads_to_it(tree: Path, outside: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (tree / "sub").chmod(0o1777)
    (tree / "sub/link").symlink_to(outside / "file")
    copy_directory(tree, "sub", target, "a/b")
    assert (target / "a/b/file").read_text() == "of the tree" and (target / "a/b").stat().st_mode & 0o7777 == 0o1777
    assert (target / "a/b/link").readlink() == outside / "file"
    _a_link_to_the_directory(tree, outside)
    assert is_directory(tree, "before") and not is_directory(tree, "sub") and not is_directory(tree, "sub/deeper")
    with pytest.raises(RunError, match="tree/sub can't be used"):
        copy_directory(tree, "sub", target, "c")
    assert not (target / "c").exists()


@pytest.mark.promise("a workload", "Links in a tree, an image or sources lead root to no file of the host.")
@pytest.mark.parametrize("name", ["a", "a/b", "a/b/file"])
def test_a_copy_follows_no_link_of_its_target(tree: Path, outside: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "target"
    (target / name).parent.mkdir(parents=True)
    (target / name).symlink_to(outside / "file" if name.endswith("file") else outside)
    if name.endswith("file"):  # a file replaces a link
        copy_directory(tree, "sub", target, "a/b")
        assert (target / "a/b/file").read_text() == "of the tree" and not (target / "a/b/file").is_symlink()
    else:
        with pytest.raises(RunError):
            copy_directory(tree, "sub", target, "a/b")
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "of the host"
