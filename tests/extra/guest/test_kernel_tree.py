"""A source tree is patched, configured and compiled: by GNU patch and make, on a Linux of three files."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kit.arms.engines.root import EngineRoot
from kit.core.errors import RunError, UsageError
from kit.extra.guest.recipe import KernelRecipe, MachineRecipe
from kit.extra.guest.tree import KernelTree

pytestmark = pytest.mark.skipif(not (shutil.which("patch") and shutil.which("make")), reason="needs patch and make")

LINES = "".join(f"line {number}\n" for number in range(40))
MAKEFILE = """VERSION = 6
PATCHLEVEL = 1
SUBLEVEL = 192
defconfig:
	echo CONFIG_NET=y > .config
olddefconfig:
	sed -i /CONFIG_NOSUCH/d .config
linux:
	@echo "  CC      mm/mmap.o"
	cp mm/mmap.c $@
"""
MERGE = '#!/bin/sh\ncat "$3" >> "$2"\n'


def hunk(number: int, new: str) -> str:
    return f"@@ -{number + 1},1 +{number + 1},1 @@\n-line {number}\n+{new}\n"


def diff(*hunks: str) -> str:
    return "--- a/mm/mmap.c\n+++ b/mm/mmap.c\n" + "".join(hunks)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelTree:
    """Unpacked; its recipe lies in a directory ``images`` of its own, and ``patches`` is what a user gives."""
    given, recipe = tmp_path / "patches", tmp_path / "images/x"
    for path in (given / "fs/aufs", recipe, tmp_path / "root/usr/src", tmp_path / "made"):
        path.mkdir(parents=True)
    (given / "fs/aufs/Makefile").write_text("obj-y += aufs.o\n")
    (given / "a.patch").write_text(diff(hunk(3, "three"), hunk(20, "twenty")))
    (recipe / "own.patch").write_text(diff(hunk(30, "thirty")))
    (recipe / "guest.config").write_text("CONFIG_AUFS_FS=y\n# CONFIG_WERROR is not set\n")
    with tarfile.open(tmp_path / "root/usr/src/linux.tar", "w") as tar:
        for name, text in (("Makefile", MAKEFILE), ("mm/mmap.c", LINES), ("scripts/kconfig/merge_config.sh", MERGE)):
            path = tmp_path / "linux-6.1" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        tar.add(tmp_path / "linux-6.1", "linux-6.1")
    monkeypatch.setattr("kit.extra.guest.recipe.resource", lambda kind: tmp_path / kind)
    machines = {"uml": MachineRecipe(("defconfig",), ("guest.config",), 1, 1)}
    made = KernelRecipe(
        "x", "s", "usr/src/linux.tar", "git:y", ("a.patch",), machines, parts=("fs",), own_patches=("own.patch",)
    )
    found = Unentered(made, "uml", EngineRoot(tmp_path / "root"), tmp_path / "made")
    found.unpack()
    return found


class Unentered(KernelTree):
    """By the tools of this machine: entering another root takes root."""

    def enter(self, words: Sequence[str]) -> list[str]:
        return list(words)


def given(tree: KernelTree) -> Path:
    return tree.directory.parent / "patches"


def mmap(tree: KernelTree) -> list[str]:
    return (tree.path / "mm/mmap.c").read_text().splitlines()


def test_parts_and_patches_are_laid_over_it(tree: KernelTree) -> None:
    tree.patch(given(tree))
    lines = mmap(tree)
    assert (lines[3], lines[20], lines[30], lines[31]) == ("three", "twenty", "thirty", "line 31")
    assert (tree.path / "fs/aufs/Makefile").is_file() and tree.version() == "6.1.192"


def test_hunks_that_do_not_apply_are_named(tree: KernelTree) -> None:
    (given(tree) / "a.patch").write_text(diff(hunk(3, "three"), hunk(20, "twenty").replace("-line 20", "-other")))
    with pytest.raises(UsageError) as caught:
        tree.patch(given(tree))
    assert "not for Linux 6.1.192: hunks that do not apply: 1 of mm/mmap.c; known to the recipe: none" in str(caught)


def test_hunks_that_are_known_not_to_apply_are_left_away(tree: KernelTree) -> None:
    (given(tree) / "a.patch").write_text(diff(hunk(3, "three"), hunk(20, "twenty").replace("-line 20", "-other")))
    tree.recipe.rejected["mm/mmap.c"] = 1  # type: ignore[index]
    tree.patch(given(tree))
    assert (mmap(tree)[3], mmap(tree)[20]) == ("three", "line 20")


def test_an_own_patch_must_apply(tree: KernelTree) -> None:
    tree.recipe.file("own.patch").write_text(diff(hunk(30, "thirty").replace("-line", "-lane")))
    with pytest.raises(UsageError, match=r"own\.patch does not apply to Linux 6\.1\.192: 1 of mm/mmap\.c"):
        tree.patch(given(tree))


def test_a_file_that_is_not_there_is_named(tree: KernelTree) -> None:
    (tree.path / "mm/mmap.c").rename(tree.path / "mm/map.c")
    with pytest.raises(UsageError, match=r"hunks that do not apply: 2 of mm/mmap\.c"):
        tree.patch(given(tree))


def test_what_is_no_patch_is_an_error(tree: KernelTree) -> None:
    (given(tree) / "a.patch").write_text("words\n")
    with pytest.raises(RunError, match=r"applying a\.patch failed"):
        tree.patch(given(tree))


def test_it_is_configured_and_compiled(tree: KernelTree) -> None:
    tree.configure("-kit-0123")
    config = (tree.path / ".config").read_text()
    assert "CONFIG_NET=y\n" in config and 'CONFIG_LOCALVERSION="-kit-0123"\n' in config
    with tree.compiling(1) as lines:
        said = lines.read().decode()
    assert "  CC      mm/mmap.o\n" in said and (tree.path / "linux").is_file()


def test_an_option_that_did_not_come_to_be_is_named(tree: KernelTree) -> None:
    with tree.recipe.file("guest.config").open("a") as file:
        file.write("CONFIG_NOSUCH=y\n")
    with pytest.raises(UsageError, match=r"Linux 6\.1\.192 does not take CONFIG_NOSUCH=y \(is n\)"):
        tree.configure("-kit-0123")


def test_an_error_quotes_make(tree: KernelTree) -> None:
    (tree.path / "mm/mmap.c").unlink()
    with pytest.raises(RunError, match=r"compiling the kernel failed: .*mmap"), tree.compiling(1) as lines:
        lines.read()


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A directory of the host's that nothing may touch, or look into."""
    path = tmp_path / "host"
    path.mkdir()
    (path / "file").write_text(diff(hunk(3, "of the host")))
    return path


def test_a_patch_that_is_a_link_is_not_read(tree: KernelTree, host: Path) -> None:
    (given(tree) / "a.patch").unlink()
    (given(tree) / "a.patch").symlink_to(host / "file")
    with pytest.raises(RunError, match=r"patches/a\.patch can't be used"):
        tree.patch(given(tree))
    assert mmap(tree)[3] == "line 3"


def test_parts_are_copied_through_no_link_of_theirs(tree: KernelTree, host: Path) -> None:
    (given(tree) / "fs/aufs/link").symlink_to(host / "file")
    tree.patch(given(tree))
    assert (tree.path / "fs/aufs/link").is_symlink()
    shutil.move(given(tree) / "fs", given(tree) / "moved")
    (given(tree) / "fs").symlink_to(host)
    with pytest.raises(RunError, match="patches/fs can't be used"):
        tree.patch(given(tree))
    assert not (tree.path / "fs/file").exists()


def test_parts_are_copied_through_no_link_of_the_tree(tree: KernelTree, host: Path) -> None:
    (tree.path / "fs").symlink_to(host)
    with pytest.raises(RunError, match="linux/fs can't be used"):
        tree.patch(given(tree))
    assert [path.name for path in host.iterdir()] == ["file"]


def test_what_is_written_and_saved_beside_the_tree_follows_no_link_of_a_patchs_makefile(
    tree: KernelTree, host: Path
) -> None:
    (tree.directory / "wanted").symlink_to(host / "file")
    with pytest.raises(RunError, match="made/wanted exists already"):
        tree.configure("-kit-0123")
    built = replace(tree, kind="qemu")
    (tree.path / "arch/x86/boot").mkdir(parents=True)
    (tree.path / "arch/x86/boot/bzImage").symlink_to(host / "file")
    with pytest.raises(RunError, match="boot/bzImage can't be used"):
        built.save(tree.directory / "kernel")
    assert (host / "file").read_text() == diff(hunk(3, "of the host"))
