"""What the cache keeps is whole or not there, also where the disk is full, or was when it was written."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.arms.image import ImageCache
from kit.extra.guest.kernel_cache import KernelCache
from kit.extra.guest.qemu import Trial, answer
from kit.host.command import run
from kit.host.durable import publish, read_record, write_file, write_record
from kit.model.scenario import Input
from kit.session.inputs.input_cache import InputCache


@dataclass(frozen=True)
class Noted:
    text: str


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A filesystem with room for 64 KiB."""
    path = tmp_path / "small"
    path.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "kit", path])
    yield path
    run(["umount", path])


@pytest.mark.promise("faults", "A full or broken disk leaves no half record, and costs a session its log alone.")
@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small filesystem")
def test_on_a_full_disk_the_old_record_stays(small: Path) -> None:
    write_record(small / "record", Noted("old"))
    with pytest.raises(OSError, match="No space left"), (small / "rest").open("wb", buffering=0) as rest:
        while True:
            rest.write(bytes(4096))
    for name in ("record", "another"):
        with pytest.raises(OSError, match="No space left"):
            write_record(small / name, Noted("new"))
    assert sorted(os.listdir(small)) == ["record", "rest"]
    assert read_record(Noted, small / "record") == Noted("old")


@pytest.mark.promise("faults", "A full or broken disk leaves no half record, and costs a session its log alone.")
def test_a_record_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "record").mkdir()
    (tmp_path / "record/file").touch()
    with pytest.raises(OSError, match="directory"):
        write_file(tmp_path / "record", b"x")
    assert os.listdir(tmp_path) == ["record"]


def test_others_may_read_what_is_published(tmp_path: Path) -> None:
    """Another machine takes images from the same directory."""
    (tmp_path / "new").write_text("x")
    before = os.umask(0o022)
    try:
        write_file(tmp_path / "record", b"x")
    finally:
        os.umask(before)
    publish(tmp_path / "new", tmp_path / "there")
    assert (tmp_path / "record").stat().st_mode & 0o777 == 0o644
    assert sorted(os.listdir(tmp_path)) == ["record", "there"]


BAD = [b"", b"{", b"[]", b"\xff", b'{"digest": 1}', b"null"]


@pytest.mark.promise("faults", "A record of the cache that cannot be read counts as absent.")
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("into", ["tree", "directory"])
def test_an_input_whose_record_cannot_be_read_is_rebuilt(tmp_path: Path, bad: bytes, into: str) -> None:
    """A full disk left a record of no bytes, and every session failed from then on."""
    made: list[Path] = []

    def make(scratch: Path) -> Path:
        made.append(scratch / "made")
        made[-1].mkdir()
        (made[-1] / "file").write_text("x")
        for path in (made[-1] / "file", made[-1]):
            os.utime(path, (1, 1))
        return made[-1]

    cache = InputCache(tmp_path, pytest.fail, shared=False)
    item = Input("src", into=into)
    first = cache.get(item, "origin", make)
    first.path.with_name(f"{first.path.name}.json").write_bytes(bad)
    assert cache.get(item, "origin", make) == first and len(made) == 2
    assert cache.get(item, "origin", make) == first and len(made) == 2


@pytest.mark.promise("faults", "A record of the cache that cannot be read counts as absent.")
@pytest.mark.parametrize("bad", [*BAD, b"no rootfs"])
def test_an_image_whose_record_cannot_be_read_is_rebuilt(tmp_path: Path, bad: bytes) -> None:
    made = 0

    def build(rootfs: Path, archive: Path) -> dict[str, str]:
        nonlocal made
        made += 1
        run(["tar", "-cf", rootfs, "-T", "/dev/null"])
        return {"A": "b"}

    cache = ImageCache(tmp_path)
    first = cache.make("key", "name", "origin", build)
    assert cache.make("key", "name", "origin", build) == first == cache.list()[0]
    if bad == b"no rootfs":  # a machine that lost power before it was on the disk
        first.rootfs.write_bytes(b"")
    else:
        (tmp_path / "images/key/image.json").write_bytes(bad)
    assert cache.list() == ()
    assert cache.make("key", "name", "origin", build).digest == first.digest and made == 2
    assert len(cache.remove("name")) == 1


@pytest.mark.promise("faults", "A record of the cache that cannot be read counts as absent.")
@pytest.mark.parametrize("bad", BAD)
def test_a_kernel_and_a_trial_that_cannot_be_read_are_not_there(tmp_path: Path, bad: bytes) -> None:
    for path in ("kernels/aufs-uml-1/kernel.json", "kvm.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(bad)
    assert KernelCache(tmp_path).list() == () and KernelCache(tmp_path).find("aufs", "uml") is None
    assert answer(tmp_path / "kvm.json", "here", lambda: Trial("no")) == Trial("no")
    assert answer(tmp_path / "kvm.json", "here", pytest.fail) == Trial("no")
