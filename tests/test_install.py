"""How users install the kit: make, and what the README says."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def make_prints(target: str) -> str:
    """Return the commands that make would run for a target of which nothing exists yet."""
    words = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_make_compare_installs_the_kit_without_the_pins_of_its_tests() -> None:
    """They have no wheels for a newer Python than that of CI."""
    said = make_prints("compare")
    assert "pip install --quiet --editable '.[all]'" in said
    assert ".ci/" not in said and "onstraint" not in said
