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

from tests.releases.release_table import Release, record

REPOSITORY = Path(__file__).parents[2]
#: What a checkout has beside its files.
_BESIDE = (".git", ".tox", ".venv", ".*_cache", "__pycache__", "build", "dist")


@dataclass(frozen=True)
class Case:
    """``failure``: why it did not pass, '' if it did. ``properties``: what it has recorded."""

    name: str
    failure: str
    properties: Mapping[str, str]


def rerun(
    tests: Sequence[str], log: Path, environment: Mapping[str, str], checkout: Path = REPOSITORY
) -> tuple[Case, ...]:
    """Run tests of a checkout, and return a case for each."""
    words = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-m", "machine"]
    subprocess.run(
        [*words, f"--junitxml={log}", *tests], cwd=checkout, env={**os.environ, **environment}, check=False
    )
    return tuple(map(_case, ElementTree.parse(log).getroot().iter("testcase")))


def _case(element: ElementTree.Element) -> Case:
    reasons = [child.get("message", "").partition("\n")[0] for child in element if child.tag in _FAILURES]
    properties = {item.get("name", ""): item.get("value", "") for item in element.iter("property")}
    name = f"{element.get('classname', '').rpartition('.')[2]}::{element.get('name')}"
    return Case(name, "; ".join(reasons), properties)


_FAILURES = ("error", "failure", "skipped")


def check(releases: Mapping[Release, str], cases: Iterable[Case]) -> None:
    """Record each release whose tests passed. ``releases``: with a pattern of their names. Raises AssertionError with
    the tests of the others."""
    failed = []
    for release, pattern in releases.items():
        matching = [case for case in cases if re.search(pattern, case.name)]
        reasons = {f"{case.name}: {case.failure}" for case in matching if case.failure}
        if matching and not reasons:
            record(release)
        else:
            failed.append(f"{release.program} {release.version}: {'; '.join(sorted(reasons)) or 'no test'}")
    assert not failed, "\n".join(failed)


def copied_checkout(directory: Path, recipes: Mapping[str, str]) -> Path:
    """Return a copy of this checkout whose recipes of images have other texts."""
    shutil.copytree(REPOSITORY, directory, ignore=shutil.ignore_patterns(*_BESIDE), symlinks=True)
    for name, text in recipes.items():
        recipe_file(name, directory).write_text(text, encoding="utf-8")
    return directory


def recipe_file(name: str, checkout: Path = REPOSITORY) -> Path:
    return checkout / "images" / name / "image.toml"
