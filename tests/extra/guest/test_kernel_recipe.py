"""Recipes of guest kernels, and whether the options they ask for came to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.arms.image import read_recipe
from kit.core.errors import UsageError
from kit.extra.guest.recipe import kernel_recipes, options, parse_kernel_recipe, read_kernel_recipe, refused
from kit.extra.guest.tree import patches_top
from kit.model.scenario import Input
from kit.session.inputs.sources import prepare_input
from tests.inputs import given

GOOD = """summary = "mine"
linux = "usr/src/linux.tar.xz"
source = "git:https://example.org/patches#6.1"
patches = ["a.patch"]
[machines.uml]
begin = ["defconfig"]
fragments = ["guest.config"]
files = 1900
minutes = 10
"""


@pytest.mark.parametrize("name", kernel_recipes())
def test_the_bundled_ones_name_what_is_there(name: str) -> None:
    recipe = read_kernel_recipe(name)
    assert Path(recipe.linux).name.removesuffix(".tar.xz") in read_recipe(name).packages
    assert all(recipe.file(patch).is_file() for patch in recipe.own_patches)
    digests = {recipe.digest(kind) for kind in recipe.machines}
    assert len(digests) == len(recipe.machines)
    for kind in recipe.machines:
        wanted = recipe.wanted(kind)
        # What kit.extra.guest.kernel_check and the storage drivers ask for.
        for option in ("BPF_SYSCALL", "CGROUP_BPF", "POSIX_MQUEUE", "SECCOMP_FILTER", "MEMCG", "BLK_DEV_LOOP",
                       "AUFS_FS", "OVERLAY_FS", "DM_THIN_PROVISIONING", "NFSD", "NET_SCH_NETEM"):  # fmt: skip
            assert wanted[f"CONFIG_{option}"] == "y", option


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('linux = "usr/src/linux.tar.xz"\n', "", "lacks the key 'linux'"),
        ("summary", "sumary", "unknown key 'sumary'"),
        ('patches = ["a.patch"]', 'patches = "a.patch"', "patches is not a list of strings"),
        ("files = 1900", 'files = "many"', "machines"),
        ('summary = "mine"', 'name = "y"', "unknown key 'name'"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(old: str, new: str, says: str) -> None:
    assert parse_kernel_recipe(GOOD, "x.toml", "x").machine("uml").files == 1900
    with pytest.raises(UsageError, match=f"x.toml: {says}"):
        parse_kernel_recipe(GOOD.replace(old, new), "x.toml", "x")


def test_a_machine_that_it_is_not_for_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        parse_kernel_recipe(GOOD, "x.toml", "x").machine("qemu")
    assert caught.value.hint == "use --for uml"


def test_a_change_of_anything_that_is_built_gives_another_kernel() -> None:
    aufs = read_kernel_recipe("aufs")
    changed = parse_kernel_recipe(
        aufs.file("kernel.toml").read_text().replace('"defconfig"', '"tinyconfig"'), "x", "aufs"
    )
    reworded = parse_kernel_recipe(
        aufs.file("kernel.toml").read_text().replace("minutes = 10", "minutes = 11"), "x", "aufs"
    )
    assert changed.digest("uml") != aufs.digest("uml") == reworded.digest("uml")


def test_options_are_read_and_the_refused_ones_named() -> None:
    wanted = options('# words\nCONFIG_A=y\n# CONFIG_B is not set\n\nCONFIG_C="-x"\nCONFIG_D=4\n')
    assert wanted == {"CONFIG_A": "y", "CONFIG_B": "n", "CONFIG_C": '"-x"', "CONFIG_D": "4"}
    assert list(refused(wanted, 'CONFIG_A=y\nCONFIG_C="-x"\nCONFIG_D=4\n')) == []
    found = list(refused(wanted, 'CONFIG_B=y\nCONFIG_A=m\nCONFIG_C="-x"\n# CONFIG_D is not set\n'))
    assert found == ["CONFIG_A=y (is m)", "CONFIG_B=n (is y)", "CONFIG_D=4 (is n)"]


@pytest.mark.parametrize("line", ["CONFIG_A", "A=y", "CONFIG_A =y", "CONFIG_A="])
def test_a_line_that_is_no_option_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="not an option of a kernel"):
        options(f"CONFIG_B=y\n{line}\n")


def test_patches_are_found_in_a_directory_or_one_below(tmp_path: Path) -> None:
    recipe = parse_kernel_recipe(GOOD, "x.toml", "x")
    inner = tmp_path / "patches-6.1"
    inner.mkdir()
    with pytest.raises(UsageError, match=r"holds no a\.patch"):
        patches_top(tmp_path, recipe)
    (inner / "a.patch").touch()
    assert patches_top(tmp_path, recipe) == inner == patches_top(inner, recipe)


def test_what_aufs_standalone_has_is_what_the_recipe_names(tmp_path: Path) -> None:
    source = given("aufs-standalone-aufs6.1.tar.zst")
    found = prepare_input(Input("aufs", str(source), into="directory"), tmp_path)
    recipe = read_kernel_recipe("aufs")
    assert patches_top(found.path, recipe) == found.path
    assert (found.path / "fs/aufs/Kconfig").is_file() and (found.path / "include/uapi/linux/aufs_type.h").is_file()
    patched = (found.path / "aufs6-mmap.patch").read_text()
    assert all(f"+++ b/{name}\n" in patched for name in recipe.rejected)
