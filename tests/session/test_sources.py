"""Sources of scenarios: what Debian has, of this machine's suite and of another one, and what identifies a tree."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.core.errors import RunError, UsageError
from kit.extra.guest.disks import modules_key
from kit.model.scenario import Input
from kit.session.inputs.input_cache import PreparedInput
from kit.session.inputs.sources import prepare_input
from tests.image_archives import tarball
from tests.needs import needs
from tests.ordinary_user import ordinary_user

PACKAGE = "v4l2loopback-source"  # a small one with a tarball


@pytest.mark.machine
@pytest.mark.unmeasured
@needs("mmdebstrap")
def test_a_package_may_come_from_a_suite_that_this_machine_does_not_run(tmp_path: Path) -> None:
    found = prepare_input(Input("x", source=f"deb:{PACKAGE}#trixie"), tmp_path)
    with tarfile.open(found.path) as packed:
        assert any(name.endswith("/v4l2loopback.c") for name in packed.getnames())
    with pytest.raises(RunError, match="package no-such-source of trixie can't be fetched: Unable to locate package"):
        prepare_input(Input("y", source="deb:no-such-source#trixie"), tmp_path)


def content(found: PreparedInput) -> dict[str, str]:
    with tarfile.open(found.path) as packed:
        return {member.name: (packed.extractfile(member) or io.BytesIO()).read().decode() if member.isreg()
                else f"{member.type.decode()} {member.linkname}" for member in packed}  # fmt: skip


def a_link_to_a_directory(top: Path) -> None:
    (top / "sub/link").unlink()
    (top / "sub/link").symlink_to("../other")


def an_empty_directory(top: Path) -> None:
    (top / "sub/empty/new").mkdir()


def one_less(top: Path) -> None:
    (top / "sub/empty").rmdir()


def a_file_of_equal_size_and_time(top: Path) -> None:
    before = (top / "sub/file").stat()
    (top / "sub/file").write_text("two")
    os.utime(top / "sub/file", ns=(before.st_atime_ns, before.st_mtime_ns))


def another_file_of_equal_size_and_time(top: Path) -> None:
    before = (top / "sub/file").stat()
    (top / "sub/new").write_text("two")
    os.utime(top / "sub/new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (top / "sub/new").rename(top / "sub/file")


def a_mode(top: Path) -> None:
    (top / "other").chmod(0o700)


@pytest.mark.parametrize(
    "change",
    [a_link_to_a_directory, an_empty_directory, one_less, a_file_of_equal_size_and_time,
     another_file_of_equal_size_and_time, a_mode],
)  # fmt: skip
def test_whatever_changes_in_a_directory_is_measured(tmp_path: Path, change: Callable[[Path], None]) -> None:
    top = tmp_path / "sources"
    for name in ("sub/empty", "other", "link"):
        (top / name).mkdir(parents=True)
    (top / "sub/file").write_text("one")
    (top / "sub/link").symlink_to("../link")
    item, cache = Input("src", source=str(top)), tmp_path / "cache"
    before = prepare_input(item, cache)
    assert prepare_input(item, cache) == before and content(before)["sub/link"] == "2 ../link"
    change(top)  # at once: within a tick of the filesystem's clock
    after = prepare_input(item, cache)
    assert after.path != before.path and after.digest != before.digest


def test_a_tarball_of_equal_size_and_time_is_another_one(tmp_path: Path) -> None:
    tarballs, path = [tarball({"file": data}) for data in (b"one", b"two")], tmp_path / "x.tar"
    found = []
    for data in tarballs:
        path.write_bytes(data)
        os.utime(path, (1, 1))
        found.append(content(prepare_input(Input("src", source=str(path)), tmp_path / "cache")))
    assert [names["file"] for names in found] == ["one", "two"]


def test_the_disk_of_a_kernels_modules_sees_what_is_below(tmp_path: Path) -> None:
    path = tmp_path / "kernel/fs/a.ko"
    path.parent.mkdir(parents=True)
    path.write_text("one")
    os.utime(path, (1, 1))
    before = modules_key(tmp_path)
    assert modules_key(tmp_path) == before
    path.write_text("two")
    os.utime(path, (1, 1))
    assert modules_key(tmp_path) != before


def test_a_source_that_this_user_may_not_read_is_one_line() -> None:
    with tempfile.TemporaryDirectory() as directory:  # pytest's lets no other user through
        top = Path(directory)
        top.chmod(0o755)
        (top / "sources/sub").mkdir(mode=0, parents=True)
        with ordinary_user(), pytest.raises(UsageError, match="sub: Permission denied"):
            prepare_input(Input("src", source=f"{top}/sources"), top / "cache")
