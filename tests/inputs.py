"""What tests need that no registry has: a directory beside the checkout, or the one that KIT_TEST_INPUTS names."""

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("KIT_TEST_INPUTS") or Path(__file__).parents[2] / "shared" / "inputs")


def given(name: str) -> Path:
    """One file of it; skips the test where it is not there."""
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"needs {path}: KIT_TEST_INPUTS names a directory with {name}")
    return path
