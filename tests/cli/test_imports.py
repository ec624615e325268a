"""What is imported when: nothing of an extra before it is used, and nothing slow for a command's help."""

from __future__ import annotations

import subprocess
import sys

#: What extras bring, and what only the tests have.
NOT_NEEDED = (
    "_pytest",
    "pytest",
    "flask",
    "waitress",
    "distributed",
    "dask",
    "tornado",
    "cryptography",
    "psycopg",
    "resvg_py",
    "apprise",
    "otava",
)
SLOW = ("numpy", "scipy", "sqlalchemy", "docker", "testcontainers", "jinja2")

_ALL = f"""
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys({NOT_NEEDED!r}))
import kit
for module in pkgutil.walk_packages(kit.__path__, "kit."):
    if not module.name.startswith(("kit.pytest_plugin", "kit.__main__")):
        importlib.import_module(module.name)
"""
_HELP = f"""
import sys
from kit.cli import main
try:
    sys.argv = ["kit", "--help"]
    main()
except SystemExit:
    print(*(name for name in {SLOW!r} if name in sys.modules), file=sys.stderr)
"""
_FLAT = """
import random, sys
from kit.analysis.stats.divisive import find_points
dice = random.Random(1)
flat = [dice.gauss(1, 0.01) for _ in range(100)]
print(find_points(flat, 0.0001), "scipy" in sys.modules)
print(find_points([*flat, *(value + 0.1 for value in flat)], 0.0001), "scipy" in sys.modules)
"""


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_all_but_the_plugin_can_be_imported_without_pytest_and_the_other_extras() -> None:
    done = python(_ALL)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_imports_nothing_slow() -> None:
    done = python(_HELP)
    assert "Usage:" in done.stdout
    assert done.stderr.split() == []


def test_a_history_without_a_change_loads_no_scipy() -> None:
    assert python(_FLAT).stdout.splitlines() == ["[] False", "[100] True"]
