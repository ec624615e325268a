"""What a run of pytest imports of the kit where it is installed and not used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

#: What a session needs, and whatever takes long to import.
HEAVY = (
    "numpy", "scipy", "sqlalchemy", "docker", "testcontainers", "jinja2", "rich", "click", "cloup", "msgspec",
    "kit.analysis", "kit.host", "kit.report", "kit.session", "kit.store", "kit.model.arm", "kit.model.drivers",
    "kit.model.metric", "kit.model.plan", "kit.model.session",
)  # fmt: skip

_CONFTEST = f"""
import sys

def pytest_unconfigure(config):
    print("\\nimported:", *(name for name in {HEAVY!r} if name in sys.modules))
"""


def pytest_prints(directory: Path, *words: str, code: int = 0) -> str:
    """Return the output of a pytest with no plugin but the kit's."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "kit.extra.pytest_plugin", "-p", "no:cacheprovider", *words],
        cwd=directory,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_run_without_sessions_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    (tmp_path / "other.toml").write_text("[[phases]]\n")
    said = pytest_prints(tmp_path)
    assert "1 passed" in said
    assert [line for line in said.splitlines() if line.startswith("imported:")] == ["imported:"]


def test_the_fixture_and_the_options_are_listed_all_the_same(tmp_path: Path) -> None:
    said = pytest_prints(tmp_path, "--help")
    assert "--kit-arms" in said and "--kit-rounds" in said
    assert "kit_compare" in pytest_prints(tmp_path, "--fixtures")


def test_a_file_that_cannot_be_written_is_refused_before_the_tests(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    text = pytest_prints(tmp_path, "--kit-json", "missing/out.json", code=pytest.ExitCode.USAGE_ERROR)
    assert "--kit-json: missing/out.json can't be written: No such file or directory" in text
    assert "fix: name a file" in text and "passed" not in text


def test_a_session_that_cannot_be_held_is_an_error_of_set_up(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("def test_mine(kit_compare): kit_compare(['true'], arms='nosuch')\n")
    text = pytest_prints(tmp_path, "--junitxml=out.xml", code=pytest.ExitCode.TESTS_FAILED)
    assert "1 error in" in text and "failed" not in text and "Traceback" not in text
    assert "unknown placement 'nosuch'" in text and "fix: " in text
    (case,) = ElementTree.parse(tmp_path / "out.xml").findall(".//testcase")
    assert [child.tag for child in case] == ["error"]
