"""Bundled recipes against Debian's own archive, by a real mmdebstrap, and what a user sees of one that fails."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kit.arms.image.mmdebstrap import explain
from kit.arms.image.recipe import Recipe, read_recipe, recipes
from tests.changed_kit import ChangedKit

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]


def together(found: Sequence[Recipe]) -> Recipe:
    """What can be installed together can be installed one by one; most of the time goes to reading a suite's index."""
    packages = dict.fromkeys(package for recipe in found for package in recipe.packages)
    components = dict.fromkeys(component for recipe in found for component in recipe.components)
    return replace(found[0], packages=tuple(packages), components=tuple(components))


def lacks(recipe: Recipe) -> str:
    """Why apt would not install its packages, or ''."""
    words = [str(word) for word in recipe.command(Path("/dev/null"), "--simulate", "--format=null")]
    done = subprocess.run(words, capture_output=True, text=True)
    return f"{recipe.suite}: {explain(done.stderr)}" if done.returncode else ""


def test_every_package_of_every_recipe_can_be_installed() -> None:
    suites: dict[str, list[Recipe]] = {}
    for recipe in map(read_recipe, recipes()):
        suites.setdefault(recipe.suite, []).append(recipe)
    with ThreadPoolExecutor(2) as pool:
        wrong = [text for text in pool.map(lacks, map(together, suites.values())) if text]
    assert wrong == []


def test_a_package_that_there_is_none_of_is_named(tmp_path: Path) -> None:
    changed = ChangedKit(tmp_path)
    recipe = tmp_path / "images/wrong/image.toml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text('summary = "x"\nsuite = "bullseye"\npackages = ["busybox", "no-such-package", "nor-this"]\n')
    reason = "Unable to locate package no-such-package; Unable to locate package nor-this"
    log = tmp_path / "home/cache/images/wrong.log"
    said = changed.refused("image", "build", "wrong").splitlines()
    assert said[-2] == f"kit: building image wrong failed: {reason}"
    assert said[-1] == f"  fix: check suite (bullseye) and packages in {recipe}; full log: {log}"
    assert "E: Unable to locate package no-such-package" in log.read_text()
