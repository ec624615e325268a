"""Recipes of images: what the bundled ones say is read, and what a new one says wrongly is named."""

from __future__ import annotations

import pytest

from kit.core.errors import UsageError
from kit.image.recipe import parse_recipe, read_recipe, recipes

GOOD = 'summary = "mine"\nsuite = "bookworm"\npackages = ["gcc", "make"]\n'


def test_the_bundled_ones_are_valid() -> None:
    assert all(read_recipe(name).packages for name in recipes())


def test_keys_are_read() -> None:
    found = parse_recipe(GOOD + 'customize = ["true"]\n', "x.toml", "x")
    assert (found.name, found.packages, found.components, found.customize) == (
        "x", ("gcc", "make"), ("main",), ("true",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('packages = ["gcc", "make"]', 'packages = "gcc"', "packages is not a list of strings"),
        ('packages = ["gcc", "make"]', "packages = [1]", "packages is not a list of strings"),
        ('suite = "bookworm"', "suite = 12", "suite is not a string"),
        ('suite = "bookworm"\n', "", "lacks the key 'suite'"),
        ("summary", "sumary", "unknown key 'sumary'"),
        ("summary", 'name = "y"\nsummary', "unknown key 'name'"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(old: str, new: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"x.toml: {says}"):
        parse_recipe(GOOD.replace(old, new), "x.toml", "x")
