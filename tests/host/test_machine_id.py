"""Which machine this is: by its system's id, also through links, or by one that stays with the kit's state."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.host.machine import _given, _kept

ID = "0123456789abcdef" * 2


@pytest.mark.parametrize("link", ["/run/id", "../run/id", "/first", "../../../run/id"])
def test_a_link_leads_to_the_same_file_as_on_the_machine(tmp_path: Path, link: str) -> None:
    """Seen from a container, at /proc/1/root."""
    for name in ("etc", "run"):
        (tmp_path / "root" / name).mkdir(parents=True)
    root = tmp_path / "root"
    (root / "run/id").write_text(f"{ID}\n")
    (root / "first").symlink_to("/run/id")
    (root / "etc/machine-id").symlink_to(link)
    assert _given(root) == ID


def test_links_without_an_end_are_no_id(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").symlink_to("/etc/machine-id")
    assert _given(tmp_path) == ""  # nor the one of this machine


@pytest.mark.parametrize("text", ["", "uninitialized\n", "x" * 32, ID.upper(), ID + "0"])
def test_an_image_has_no_id(tmp_path: Path, text: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text(text)
    assert _given(tmp_path) == ""


def test_an_id_of_the_kit_stays_in_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "a"))
    first = _kept()
    assert len(first) == 32 and _kept() == first
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "b"))
    assert _kept() != first
    (tmp_path / "c").mkdir()
    (tmp_path / "c/state").symlink_to(tmp_path / "a/state")  # the kit trusts no link
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "c"))
    assert _kept() == "unknown"
