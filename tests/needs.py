"""Programs that some tests need: without one they are skipped, and the reason names its package."""

from __future__ import annotations

import shutil

import pytest


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"needs {program}: apt-get install {program}")
