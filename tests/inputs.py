"""What tests need that no registry has: a directory beside the checkout, or the one that KIT_TEST_INPUTS names."""

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("KIT_TEST_INPUTS") or Path(__file__).parents[2] / "shared" / "inputs")


def image_for(image: str, *names: str) -> pytest.MarkDecorator:
    """Declare the image of tests that need these files: without them they are skipped, and it is not built."""
    return pytest.mark.images(*([image] if all((ROOT / name).exists() for name in names) else []))


def given(name: str) -> Path:
    """One file of it; skips the test where it is not there."""
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"needs {path}: KIT_TEST_INPUTS names a directory with {name}")
    return path
