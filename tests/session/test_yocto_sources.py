"""scenarios/yocto/sources.py: which file of the user's or of Debian's is what a recipe downloads."""

import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load() -> ModuleType:
    """Not by an import, which would leave bytecode in what a session digests."""
    path = Path(__file__).parents[2] / "scenarios/yocto/sources.py"
    module = ModuleType("yocto_sources")
    sys.modules[module.__name__] = module  # where dataclasses look for the module of their class
    exec(compile(path.read_text(), path, "exec"), module.__dict__)
    return module


sources = _load()
ZIP = b"the sources of zip"
DIGEST = hashlib.sha256(ZIP).hexdigest()
INDEX = f"""\
Package: zip
Binary: zip
Version: 3.0-13
Checksums-Sha1:
 {"0" * 40} 1118845 zip_3.0.orig.tar.gz
Checksums-Sha256:
 {DIGEST} 1118845 zip_3.0.orig.tar.gz
 {"1" * 64} 8200 zip_3.0-13.debian.tar.xz
Homepage: https://infozip.sourceforge.net/Zip.html

Package: unzip
Version: 6.0-28
Checksums-Sha256:
 {"2" * 64} 1376845 unzip_6.0.orig.tar.gz
"""


def source(recipe: str, digest: str, *names: str) -> Any:
    return sources.Source(recipe, digest, names, f"https://example.org/{names[0]}")


def test_what_bitbake_listed_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "zip-native").write_text(f"zip-native\t{DIGEST}\tzip30.tar.gz\thttps://example.org/zip30.tar.gz\n")
    (tmp_path / "quilt-native").write_text("quilt-native\t-\tgit2_a.tar.gz|git2_b.tar.gz\tgit://example.org/quilt\n")
    (tmp_path / "base-files").write_text("")
    quilt, zipped = sources.read_listed(tmp_path)
    assert zipped == source("zip-native", DIGEST, "zip30.tar.gz")
    assert (quilt.digest, quilt.names) == ("", ("git2_a.tar.gz", "git2_b.tar.gz"))


def test_debians_file_is_known_by_its_checksum_and_the_first_suite_that_has_it_is_taken() -> None:
    wanted = [source("zip-native", DIGEST, "zip30.tar.gz"), source("gone-native", "3" * 64, "gone.tar.gz")]
    wanted += [source("zip-replacement", DIGEST, "zip-3.0.tgz"), source("quilt-native", "", "git2_a.tar.gz")]
    later = INDEX.replace("3.0-13", "3.0-15").splitlines(keepends=True)
    found = sources.choose(wanted, [*sources.read_index(INDEX.splitlines(keepends=True)), *sources.read_index(later)])
    packed = sources.Packed("zip", "3.0-13", "zip_3.0.orig.tar.gz")
    assert found == {wanted[0]: packed, wanted[2]: packed}


def test_an_index_ends_with_its_last_package_and_no_empty_line() -> None:
    names = [packed.name for _, packed in sources.read_index(INDEX.splitlines(keepends=True))]
    assert names == ["zip_3.0.orig.tar.gz", "zip_3.0-13.debian.tar.xz", "unzip_6.0.orig.tar.gz"]


@pytest.mark.parametrize("name", ["zip30.tar.gz", "zip30.tgz", "zip_3.0.orig.tar.gz"])
def test_a_users_file_is_taken_under_the_name_of_the_recipe(name: str, tmp_path: Path) -> None:
    given, downloads = tmp_path / "given", tmp_path / "downloads"
    given.mkdir()
    downloads.mkdir()
    (given / name).write_bytes(ZIP)
    (given / "git2").mkdir()
    wanted = [source("zip-native", DIGEST, "zip30.tar.gz"), source("quilt-native", "", "git2_a.tar.gz")]
    sources.from_directory(wanted, given, downloads)
    assert [path.name for path in downloads.iterdir()] == ["zip30.tar.gz"]
    assert sources.missing(wanted, downloads) == [wanted[1]]


def test_a_file_with_another_checksum_is_not_the_recipes(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "downloads").mkdir()
    (tmp_path / "given/zip30.tar.gz").write_bytes(b"cut short")
    wanted = [source("zip-native", DIGEST, "zip30.tar.gz")]
    sources.from_directory(wanted, tmp_path / "given", tmp_path / "downloads")
    assert sources.missing(wanted, tmp_path / "downloads") == wanted


def test_without_a_directory_of_the_users_nothing_is_taken_from_there(tmp_path: Path) -> None:
    wanted = [source("zip-native", DIGEST, "zip30.tar.gz")]
    sources.from_directory(wanted, tmp_path / "none", tmp_path)
    assert sources.missing(wanted, tmp_path) == wanted


@pytest.mark.parametrize("count", [1, 4, 30])
def test_every_recipe_that_lacks_a_source_is_named_in_few_lines(count: int) -> None:
    lacking = [source(f"recipe{number}", "", f"file{number}.tar.gz") for number in range(count)]
    lines = sources.explain(lacking).splitlines()
    assert lines[0] == "recipe0: file0.tar.gz from https://example.org/file0.tar.gz"
    assert all(any(f"recipe{number}: file{number}.tar.gz" in line for line in lines) for number in range(count))
    assert len(lines) <= 6 and lines[-1].endswith("--param downloads=DIRECTORY")
