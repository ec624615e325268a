"""What is refused because a session runs waits with the option that the error names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.cli import cli
from kit.core.errors import BusyError
from kit.host.lock import machine_lock


@pytest.mark.parametrize("words", ["image build smoke", "kernel build aufs", "clean", "doctor"])
def test_each_takes_the_option(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = tmp_path / "run"
    held.mkdir()
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("kit.core.paths._LOCK", held)
    with machine_lock(held, "first"), pytest.raises(BusyError) as caught:
        cli.main(words.split(), standalone_mode=False)
    assert caught.value.hint.startswith("wait with --wait")
    assert cli.main([*words.split(), "--wait", "--help"], standalone_mode=False) == 0
