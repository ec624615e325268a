"""Printed commands open the store that they are about: if only --store names it, a line says so."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.command_line import in_fork as kit
from tests.nights import night
from tests.stores import new_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "my stores").mkdir()
    new_store(tmp_path / "my stores/kit.db").add(night(1, 0.1))
    return f"sqlite:///{tmp_path}/my stores/kit.db"


def test_a_store_of_the_command_line_is_named_below_the_commands(url: str) -> None:
    screen = kit("show", "last", "--store", url).stdout
    assert screen.endswith(f"\nThese commands need --store '{url}'\n")
    words = shlex.split(screen.splitlines()[-1])
    assert kit("show", "last", *words[words.index("--store") :]).stdout == screen


def test_a_store_of_the_environment_is_not(url: str) -> None:
    assert "--store" not in kit("show", "last", KIT_STORE=url).stdout


def test_other_formats_print_no_commands(url: str) -> None:
    assert "--store" not in kit("show", "last", "--store", url, "--format", "csv").stdout


def test_an_import_names_it_too(tmp_path: Path, url: str) -> None:
    (tmp_path / "a.txt").write_text("real 1.0\nuser 1\nsys 0\nreal 1.1\nuser 1\nsys 0\n")
    done = kit("import", str(tmp_path / "a.txt"), "--store", url)
    assert done.returncode == 0 and f"These commands need --store '{url}'" in done.stdout, done.stderr
