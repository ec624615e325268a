"""What is imported when: nothing of an extra before it is used, and nothing slow for help and for lists."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.nights import night
from tests.stores import new_store

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
SLOW = ("numpy", "scipy", "sqlalchemy", "docker", "testcontainers", "jinja2", "distributed", "rich")
#: Commands that look something up, one after the other, and what they import of it.
QUICK = {"--help": "", "--version": "", "help": "", "help arms": "", "sessions": "sqlalchemy"}

_ALL = f"""
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys({NOT_NEEDED!r}))
import kit
for module in pkgutil.walk_packages(kit.__path__, "kit."):
    if not module.name.startswith(("kit.extra.pytest_plugin", "kit.__main__")):
        importlib.import_module(module.name)
"""
_QUICK = f"""
import sys
from kit.cli import main
for words in {list(QUICK)!r}:
    try:
        sys.argv = ["kit", *words.split()]
        main()
    except SystemExit as done:
        print(done.code, words, *(name for name in {SLOW!r} if name in sys.modules), file=sys.stderr)
"""


def python(program: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], env={**os.environ, **env}, capture_output=True, text=True)


def test_all_but_the_plugin_can_be_imported_without_pytest_and_the_other_extras() -> None:
    done = python(_ALL)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_and_lists_import_nothing_slow(tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    store.add(night(1, 0.05))
    store.close()
    done = python(_QUICK, KIT_STORE=f"sqlite:///{tmp_path}/kit.db")
    assert done.stderr.splitlines() == [f"0 {words} {names}".strip() for words, names in QUICK.items()]
    assert "Usage:" in done.stdout and night(1, 0.05).id in done.stdout
