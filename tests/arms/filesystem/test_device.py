"""The guard before a device is overwritten: empty means that zeros were read, not that no signature is known."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kit.arms.filesystem.device import check_device, check_devices, clear_device, first_data, identity
from kit.core.errors import UsageError
from kit.model.fact import stored
from kit.model.session import INTERRUPTED, Request, Session

pytestmark = pytest.mark.unmeasured

MIB = 1 << 20
BIG = 300 * MIB


@pytest.mark.parametrize("size", [0, 1, 511, 4096, MIB + 3, 64 * MIB, 64 * MIB + 1, BIG, BIG + 512])
def test_zeros_are_empty_whatever_the_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(size)
    assert first_data(path) is None


@pytest.mark.parametrize("at", [0, 512, 4 * MIB - 1, BIG // 2, BIG - 4 * MIB, BIG - 1])
def test_data_is_found_at_both_ends_and_between(tmp_path: Path, at: int) -> None:
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(BIG)
        # In the middle whatever lies there: 2 MiB, more than two samples are apart.
        file.seek(at)
        file.write(b"\1" * min(BIG - at, 2 * MIB if at == BIG // 2 else 1))
    found = first_data(path)
    assert found is not None and at <= found < at + 2 * MIB
    if at != BIG // 2:
        assert found == at


def test_a_small_disk_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    for at in (0, 5 * MIB + 4097, 40 * MIB - 1):
        with path.open("wb") as file:
            file.truncate(40 * MIB)
            file.seek(at)
            file.write(b"\1")
        assert first_data(path) == at


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Path]:
    """A loop device over 80 MiB of zeros."""
    yield from _loop(tmp_path / "disk")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Path]:
    yield from _loop(tmp_path / "other")


def _loop(file: Path) -> Iterator[Path]:
    with file.open("wb") as disk:
        disk.truncate(80 * MIB)
    words = ["losetup", "--find", "--show", str(file)]
    device = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    yield Path(device)
    subprocess.run(["losetup", "--detach", device], check=True)


@pytest.mark.machine
def test_raw_data_without_a_signature_is_not_empty(loop: Path) -> None:
    assert check_device(loop, ()) is False
    with loop.open("r+b") as file:
        file.seek(70 * MIB)
        file.write(b"\1" * 9 * MIB)
    with pytest.raises(UsageError, match=rf"{loop} is not empty: it holds data, at byte \d+"):
        clear_device(loop, ())
    assert check_device(loop, (loop,)) is True
    with pytest.raises(UsageError, match="is not empty"):
        check_device(loop, (Path("/dev/other"),))


@pytest.mark.machine
def test_a_device_that_is_used_is_refused_whatever_is_said(loop: Path) -> None:
    subprocess.run(["mkswap", "-q", str(loop)], check=True)
    holder = subprocess.Popen(
        ["python3", "-c", f"import os; os.open('{loop}', os.O_RDWR | os.O_EXCL); print(1, flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert holder.stdout and holder.stdout.readline() == b"1\n"
        with pytest.raises(UsageError, match="is in use"):
            check_device(loop, (loop,))
    finally:
        holder.communicate(b"\n")
    assert check_device(loop, (loop,)) is True


@pytest.mark.machine
def test_a_session_goes_on_upon_its_own_device_alone(loop: Path, other: Path, tmp_path: Path) -> None:
    name = tmp_path / "name"
    name.symlink_to(loop)
    request = Request(device=str(name), thin_device=str(other))
    session = Session("x", 1.0, "0", "t", INTERRUPTED, request, ("bare",), (), 1, stored(check_devices(request, ())))
    check_devices(request, (), session)
    subprocess.run(["mkfs.ext4", "-q", loop], check=True)
    with pytest.raises(UsageError, match=f"use --wipe {name} to destroy what is on it"):
        check_devices(request, (), session)
    check_devices(request, [name], session)
    name.unlink()
    name.symlink_to(other)
    with pytest.raises(UsageError, match=f"{name} is not the device that session x began with"):
        check_devices(request, [name], session)
    with pytest.raises(UsageError, match="and was unknown"):
        check_devices(request, [name], replace(session, facts={}))
    assert str(tmp_path / "disk") in identity(loop) and f"{80 * MIB} bytes" in identity(loop)
