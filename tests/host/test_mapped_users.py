"""Whether an ordinary user's programs can map users and groups, and what adds the missing range."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.core.private import user_name
from kit.host import user_namespace
from kit.host.command import which
from kit.host.user_namespace import why_no_mapped_users

USER = user_name(os.getuid())


@pytest.fixture
def ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The files of users' and of groups' ranges, both missing. No setting forbids namespaces."""
    files = tmp_path / "subuid", tmp_path / "subgid"
    monkeypatch.setattr(user_namespace, "_RANGES", dict(zip(files, ("--add-subuids", "--add-subgids"), strict=True)))
    monkeypatch.setattr(user_namespace, "why_no_user_namespace", lambda program: ("", ""))
    if not which("newuidmap"):
        pytest.skip("needs newuidmap (package uidmap)")
    return files


def test_a_user_without_ranges_gets_both(ranges: tuple[Path, Path]) -> None:
    reason, fix = why_no_mapped_users("podman")
    assert reason == f"{USER} has no range of numbers in {ranges[0]} and {ranges[1]}"
    assert fix == f"run sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {USER}"


def test_the_range_is_nobody_elses_and_only_the_missing_one_is_added(ranges: tuple[Path, Path]) -> None:
    ranges[0].write_text(f"other:100000:65536\n{USER}:165536:65536\nbroken\n")
    ranges[1].write_text("other:100000:65536\n")
    reason, fix = why_no_mapped_users("podman")
    assert reason == f"{USER} has no range of numbers in {ranges[1]}"
    assert fix == f"run sudo usermod --add-subgids 231072-296607 {USER}"


def test_a_user_with_both_needs_nothing(ranges: tuple[Path, Path]) -> None:
    for file, owner in zip(ranges, (USER, os.getuid()), strict=True):
        file.write_text(f"{owner}:100000:65536\n")
    assert why_no_mapped_users("podman") == ("", "")
