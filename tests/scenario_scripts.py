"""The programs of scenarios as modules of a test."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

SCENARIOS = Path(__file__).parents[1] / "scenarios"


def load_script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Not by an import, which would leave bytecode in what a session digests."""
    path = SCENARIOS / f"{name}.py"
    module = ModuleType(path.stem)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(path.read_text(), path, "exec"), module.__dict__)
    return module
