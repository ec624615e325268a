"""Recipes of images: what the bundled ones say is read, and what a new one says wrongly is named."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kit.arms.image.mmdebstrap import explain
from kit.arms.image.recipe import parse_recipe, read_recipe, recipes
from kit.core.errors import RunError, UsageError

GOOD = 'summary = "mine"\nsuite = "bookworm"\npackages = ["gcc", "make"]\n'


def test_the_bundled_ones_are_valid() -> None:
    assert all(read_recipe(name).packages for name in recipes())


def test_keys_are_read() -> None:
    found = parse_recipe(GOOD + 'customize = ["true"]\n', "x.toml", "x")
    assert (found.name, found.packages, found.components, found.customize) == (
        "x", ("gcc", "make"), ("main",), ("true",),
    )  # fmt: skip


def test_programs_in_go_are_pinned_and_change_the_digest() -> None:
    """Everybody builds the same bytes: of one version of Go, and of each module."""
    for recipe in map(read_recipe, recipes()):
        assert bool(recipe.go) == bool(recipe.go_programs)
        assert all(re.fullmatch(r"[\w./-]+/cmd/[\w-]+@v\d+\.\d+\.\d+[\w.-]*", name) for name in recipe.go_programs)
        assert re.fullmatch(r"(\d+\.\d+\.\d+)?", recipe.go)
        assert {file.stem for file in recipe.mains} <= {re.split("[/@]", name)[-2] for name in recipe.go_programs}
    plain = parse_recipe(GOOD, "x.toml", "x")
    built = parse_recipe(GOOD + 'go = "1.26.8"\ngo_programs = ["example.org/a/cmd/a@v1.0.0"]\n', "x.toml", "x")
    newer = replace(built, go="1.26.9")
    assert len({plain.digest, built.digest, newer.digest, replace(built, go_flags=("-tags=a",)).digest}) == 4
    assert built.sources == "2 packages of bookworm and 1 program in Go (once, about 2 minutes)"


def test_programs_in_rust_are_pinned_and_change_the_digest() -> None:
    for recipe in map(read_recipe, recipes()):
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@\d+\.\d+\.\d+", name) for name in recipe.rust_programs)
    plain = parse_recipe(GOOD, "x.toml", "x")
    built = parse_recipe(GOOD + 'rust_programs = ["a/b@1.0.0"]\n', "x.toml", "x")
    assert len({plain.digest, built.digest, replace(built, rust_programs=("a/b@1.0.1",)).digest}) == 3
    assert built.sources == "2 packages of bookworm and 1 program in Rust (once, about 12 minutes)"
    both = replace(built, go="1.26.8", go_programs=("a", "b"))
    assert both.sources.endswith("and 2 programs in Go and 1 program in Rust (once, about 16 minutes)")


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


LACKING = """\
I: automatically chosen mode: root
I: running apt-get update...
I: simulate installing remaining packages inside the chroot...
Reading package lists...
Building dependency tree...
E: Unable to locate package rpcsvc-proto
E: Unable to locate package qilt
E: setup failed: E: apt-get --yes -oAPT::Get::Simulate=true install -oDpkg::Use-Pty=false rpcsvc-proto qilt failed
I: removing tempdir /tmp/mmdebstrap.OE1tg57YgP...
E: mmdebstrap failed to run
"""
HOOK = """\
I: running --customize-hook in shell: sh -c 'chroot "$1" useradd builder' exec /tmp/mmdebstrap.1
useradd: user 'builder' already exists
E: setup failed: E: command failed: chroot "$1" useradd builder
I: main() received signal PIPE: waiting for setup...
E: mmdebstrap failed to run
"""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (LACKING, "Unable to locate package rpcsvc-proto; Unable to locate package qilt"),
        (HOOK, "useradd: user 'builder' already exists"),
        ("E: mmdebstrap failed to run\n", "mmdebstrap failed to run"),
        ("", ""),
    ],
)
def test_why_mmdebstrap_failed_is_reported_without_its_chatter(said: str, reason: str) -> None:
    assert explain(said) == reason


def test_no_password_is_in_the_log_of_a_failed_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip's index may need one, and mmdebstrap prints what its hooks print."""
    program = tmp_path / "bin/mmdebstrap"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'ERROR: nothing at https://me:mine@b.example.org/simple' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(RunError, match="building image x failed: ERROR: nothing at") as caught:
        parse_recipe(GOOD, "x.toml", "x").build(tmp_path / "rootfs.tar", tmp_path / "archive.tar", tmp_path / "log")
    said = (tmp_path / "log").read_text()
    assert "b.example.org" in said and "mine" not in said + str(caught.value)
