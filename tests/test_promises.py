"""The page of promises names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/explanation/promises.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the kit is tested without its documents")
def test_each_test_that_the_page_names_exists() -> None:
    """A name without a file is of the file before it in the line."""
    named = 0
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        text = ""
        for path, function in re.findall(r"`(?:(tests/[\w/]+\.py))?(?:::)?(test_\w+)?`", line):
            if path:
                text = (ROOT / path).read_text(encoding="utf-8")
            if function:
                assert f"def {function}(" in text, f"{path} {function}: {line}"
            named += bool(path or function)
    assert named > 40
