"""Tests of the cached KVM probe: it runs again when the answer may have changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.extra.guest.qemu import Trial, answer, circumstances

YES, NO, HANGS = Trial(), Trial("Permission denied", dear=False), Trial("it hangs")


@pytest.fixture
def device(tmp_path: Path) -> Path:
    made = tmp_path / "kvm"
    made.touch(0o600)
    return made


def asked(tmp_path: Path, device: Path, found: Trial, digest: str = "qemu") -> tuple[bool, bool]:
    """The answer, and whether that was tried."""
    tries = []

    def attempt() -> Trial:
        tries.append(found)
        return found

    said = answer(tmp_path / "kvm.json", circumstances(device, digest), attempt)
    return not said.reason, bool(tries)


def replaced(device: Path) -> None:
    device.unlink()
    device.with_name("held").touch()  # or the new one may have its inode
    device.touch()


@pytest.mark.parametrize("change", [lambda device: device.chmod(0o666), lambda device: os.utime(device), replaced])
def test_a_no_is_forgotten_with_what_it_hangs_on(tmp_path: Path, device: Path, change: Callable[[Path], None]) -> None:
    assert asked(tmp_path, device, HANGS) == (False, True)
    assert asked(tmp_path, device, YES) == (False, False)
    change(device)
    assert asked(tmp_path, device, YES) == (True, True)
    assert asked(tmp_path, device, NO) == (True, False)
    assert asked(tmp_path, device, NO, "another") == (False, True)


def test_a_no_that_costs_nothing_is_asked_for_again(tmp_path: Path, device: Path) -> None:
    assert asked(tmp_path, device, NO) == (False, True)
    assert asked(tmp_path, device, YES) == (True, True)


@pytest.mark.parametrize("text", ["", "{", '{"4f1c-boot": false}'])
def test_what_an_older_kit_or_nobody_wrote_is_no_answer(tmp_path: Path, device: Path, text: str) -> None:
    (tmp_path / "kvm.json").write_text(text)
    assert asked(tmp_path, device, YES) == (True, True)
    assert answer(tmp_path / "kvm.json", circumstances(device, "qemu"), lambda: NO) == YES
