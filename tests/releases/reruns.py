"""Tests run again in a process of their own: with other programs, or in a copy of this checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.releases.release_table import Release, record

REPOSITORY = Path(__file__).parents[2]
#: What a checkout has beside its files.
_BESIDE = (".git", ".tox", ".venv", ".*_cache", "__pycache__", "build", "dist")


@dataclass(frozen=True)
class Case:
    """``failure`` and ``skipped``: why it did not pass, '' if it did. ``properties``: what it has recorded."""

    name: str
    failure: str
    skipped: str
    properties: Mapping[str, str]


def rerun(
    tests: Sequence[str], log: Path, environment: Mapping[str, str], checkout: Path = REPOSITORY
) -> tuple[Case, ...]:
    """Run tests of a checkout, and return a case for each."""
    # Of the younger family pytest writes no properties.
    options = ["-q", "-rs", "-p", "no:cacheprovider", "-m", "machine", "-o", "junit_family=xunit1"]
    words = [sys.executable, "-m", "pytest", *options]
    subprocess.run([*words, f"--junitxml={log}", *tests], cwd=checkout, env={**os.environ, **environment}, check=False)
    return tuple(map(_case, ElementTree.parse(log).getroot().iter("testcase")))


def _case(element: ElementTree.Element) -> Case:
    reasons = {child.tag: child.get("message", "").partition("\n")[0] for child in element}
    properties = {item.get("name", ""): item.get("value", "") for item in element.iter("property")}
    name = f"{element.get('classname', '').rpartition('.')[2]}::{element.get('name')}"
    return Case(name, reasons.get("failure", reasons.get("error", "")), reasons.get("skipped", ""), properties)


def check(releases: Mapping[Release, str], cases: Iterable[Case]) -> None:
    """Record each release of which a test passed and none failed. ``releases``: with a pattern of their names. Raises
    AssertionError with the tests of the others; skips, with what this machine lacks, where only skipped ones are left.
    """
    failed, skipped = [], []
    for release, pattern in releases.items():
        matching = [case for case in cases if re.search(pattern, case.name)]
        failures = {f"{case.name}: {case.failure}" for case in matching if case.failure}
        lacking = {f"{case.name}: {case.skipped}" for case in matching if case.skipped}
        name = f"{release.program} {release.version}"
        if failures or not matching:
            failed.append(f"{name}: {'; '.join(sorted(failures)) or 'no test'}")
        elif len(lacking) == len(matching):
            skipped.append(f"{name}: {'; '.join(sorted(lacking))}")
        else:
            record(release)
    assert not failed, "\n".join(failed)
    if skipped:
        pytest.skip("not tried: " + "\n".join(skipped))


def copied_checkout(directory: Path, recipes: Mapping[str, str]) -> Path:
    """Return a copy of this checkout whose recipes of images have other texts."""
    shutil.copytree(REPOSITORY, directory, ignore=shutil.ignore_patterns(*_BESIDE), symlinks=True)
    for name, text in recipes.items():
        recipe_file(name, directory).write_text(text, encoding="utf-8")
    return directory


def recipe_file(name: str, checkout: Path = REPOSITORY) -> Path:
    return checkout / "images" / name / "image.toml"
