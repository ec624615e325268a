"""``kit bisect`` up to its first step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import Kit
from tests.needs import needs
from tests.repository import make_repository

pytestmark = needs("git")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


@pytest.mark.parametrize("params", [("--param", "jobs=1,2"), ("--param", "jobs=1", "--param", "jobs=2")])
def test_a_sweep_has_no_single_answer(kit: Kit, params: tuple[str, ...]) -> None:
    words = ("--good", "docker@20.10", "--bad", "docker@29", "--arm", "layer:overlay2", *params, "--dry-run")
    done = kit("bisect", *words, "kernel:short")
    assert done.returncode == 2 and "a bisection sweeps no parameter" in done.stderr, done.stderr


def test_settings_hold_as_in_a_comparison(
    kit: Kit, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a bisection would measure another Docker than the comparison in the same directory."""
    monkeypatch.chdir(tmp_path)
    words = ("bisect", "--source", repository, "--good", "v1", "--bad", "main", "--arm", "layer:overlay2", "--dry-run")
    (tmp_path / "kit.toml").write_text('engine = "docker@20.10"\n')
    done = kit(*words, "--", "make")
    assert done.returncode == 0 and "on layer:docker@20.10/overlay2" in done.stdout, done.stderr
    assert "at most 1 comparison with" in done.stdout and "one more for each candidate that fails" in done.stdout
    (tmp_path / "kit.toml").write_text(f'directory = "{tmp_path}/a:b"\n')
    done = kit(*words, "--", "make")
    assert done.returncode == 2 and "--dir" in done.stderr, done.stdout
