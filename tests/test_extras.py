"""The core without an extra: its folder and its row of the table are removed in a copy, and the core still works."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

import kit
from kit.cli import SECTIONS
from kit.extensions import EXTRAS, merged
from tests.sources import parsed

CHECKOUT = Path(__file__).parents[1]
EXTRA = Path(kit.__file__).parent / "extra"
NAMES = [extra.name for extra in EXTRAS]
#: Tests of the core that run in the copy: commands, their help and what is imported for it, reports, stored sessions.
CORE = (
    "tests/cli/test_help.py", "tests/cli/test_imports.py", "tests/cli/test_completion.py",
    "tests/cli/test_command_line.py", "tests/report/test_renderer.py", "tests/store/test_store.py",
)  # fmt: skip


def test_each_extra_is_a_folder_and_a_row() -> None:
    assert sorted(NAMES) == sorted(path.parent.name for path in EXTRA.glob("*/__init__.py"))


def test_what_a_row_names_exists() -> None:
    for extra in EXTRAS:
        makers = [
            *(command.maker for command in extra.commands), *extra.scenarios.values(), *extra.renderers.values(),
            *filter(None, [extra.pages, extra.readers, extra.places, extra.traced_rounds, extra.causes]),
            *filter(None, [extra.sections, extra.tracks, extra.turning, extra.schema, *extra.analyses.values()]),
            *(check for _, check in (*extra.checks, *extra.held_checks)), *extra.documents.values(),
            *extra.engines.values(), *extra.page_parts.values(),
        ]  # fmt: skip
        assert makers or extra.entry_point, extra.name
        assert all(extra.load(maker) is not None for maker in makers), extra.name
    points = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["entry-points"]
    packages = {extra.entry_point: {"kit": f"kit.extra.{extra.name}"} for extra in EXTRAS if extra.entry_point}
    assert packages == points


def test_a_command_is_listed_after_the_one_that_its_row_names() -> None:
    for extra in EXTRAS:
        for command in extra.commands:
            listed = [*SECTIONS[command.heading]]
            before = listed[listed.index(command.name) - 1]
            assert command.after in (before, ""), command.name
    assert [*merged({"a": 1, "b": 2}, [("a", "c", 3), ("z", "d", 4)])] == ["a", "c", "b", "d"]


def importers(name: str) -> set[str]:
    """Return the extras that import this one, directly or not; they go with it."""
    found = {name}
    while True:
        more = {
            path.relative_to(EXTRA).parts[0]
            for path in EXTRA.rglob("*.py")
            for node in parsed(path).nodes(ast.ImportFrom)
            if node.module and node.module.split(".")[:2] == ["kit", "extra"] and {*node.module.split(".")[2:3]} & found
        }
        if more <= found:
            return found
        found |= more


def without(table: str, names: set[str]) -> str:
    """Return the table's source without the rows of these extras."""
    lines = table.splitlines(keepends=True)
    (rows,) = (
        node.value
        for node in ast.parse(table).body
        if isinstance(node, ast.Assign) and "EXTRAS" in ast.unparse(node.targets[0])
    )
    assert isinstance(rows, ast.Tuple)
    for row in rows.elts:
        if isinstance(row, ast.Call) and isinstance(row.args[0], ast.Constant) and row.args[0].value in names:
            lines[row.lineno - 1 : row.end_lineno] = [""] * ((row.end_lineno or 0) - row.lineno + 1)
    return "".join(lines)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout that has what the tests above need."""
    place = tmp_path_factory.mktemp("core")
    unwanted = shutil.ignore_patterns("__pycache__", "machine", "users_machine", "releases")
    for name in ("kit", "tests", "scenarios", "images", "docs", "examples"):
        shutil.copytree(CHECKOUT / name, place / name, ignore=unwanted, symlinks=True)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(CHECKOUT / name, place)
    return place


@pytest.mark.parametrize("name", NAMES)
def test_the_core_works_without_it(copied: Path, name: str, tmp_path: Path) -> None:
    place, gone = tmp_path / "core", importers(name)
    shutil.copytree(copied, place, symlinks=True)
    table = place / "kit/extensions.py"
    table.write_text(without(table.read_text(), gone))
    for each in gone:
        shutil.rmtree(place / "kit/extra" / each)
        shutil.rmtree(place / "tests/extra" / each, ignore_errors=True)
    environment = {**os.environ, "PYTHONPATH": str(place), "KIT_HOME": str(tmp_path / "home")}
    python = partial(subprocess.run, cwd=place, env=environment, capture_output=True, text=True)
    plugins = ["-p", "no:cacheprovider", "-p", "no:kit"]
    done = python([sys.executable, "-m", "pytest", "-q", *plugins, "-m", "not machine", *CORE])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 100
    shown = python([sys.executable, "-m", "kit", "--help"])
    (removed,) = (extra for extra in EXTRAS if extra.name == name)
    assert shown.returncode == 0 and not [item.name for item in removed.commands if f"  {item.name} " in shown.stdout]
