"""Measured tests under pytest-xdist: refused in one line before the first test, while other tests may use it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xdist", reason="the package pytest-xdist is not installed")

_MEASURED = "def test_measured(kit_compare): kit_compare(['true'])\n"
_PLAIN = "def test_plain(): print('it ran')\n"
_ASKS = "def test_asks(request): request.getfixturevalue('kit_compare')(['true'])\n"


def run_pytest(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    plugins = ["-p", "xdist", "-p", "kit.extra.pytest_plugin", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *words],
        cwd=directory,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "test_a.py").write_text(_PLAIN)
    (tmp_path / "test_b.py").write_text(_MEASURED)
    return tmp_path


def test_measured_tests_are_refused_before_any_test_runs(project: Path) -> None:
    done = run_pytest(project, "-n", "2", "-s")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line]
    assert lines == [
        "ERROR: kit: test_b.py::test_measured under xdist: benchmarks must not share a machine; "
        "fix: run it without -n, or with -n 0"
    ]
    assert "passed" not in done.stdout and "failed" not in done.stdout and "Traceback" not in done.stdout


def test_other_tests_may_use_it(project: Path) -> None:
    assert "1 passed" in run_pytest(project, "-n", "2", "test_a.py").stdout
    assert "1 passed" in run_pytest(project, "-n", "2", "-k", "plain").stdout


def test_a_fixture_that_is_asked_for_later_is_an_error_of_set_up(project: Path) -> None:
    (project / "test_b.py").write_text(_ASKS)
    done = run_pytest(project, "-n", "2")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED and "1 passed, 1 error" in done.stdout, done.stdout
    assert "kit: kit_compare under xdist: benchmarks must not share a machine; fix: run it" in done.stdout
    assert "Traceback" not in done.stdout and "refuse_xdist" not in done.stdout
