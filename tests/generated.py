"""docs/generate.py as a module."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


@cache
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
