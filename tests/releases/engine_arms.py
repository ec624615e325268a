"""Arms of each engine root, and of the engines on PATH: run by tests/releases/test_releases.py.

The report of a test has, as properties, what the programs of its engine say of their versions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.core.paths import find_paths
from kit.model.arm import parse_arm
from kit.model.fact import PROGRAM
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from kit.session.setup.provision import Provision
from tests.engine_suite import EngineSuite, spec_of

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]
#: By the recipe of an engine root; '' is what is on PATH.
ARMS = {
    "docker-20.10": ("layer:docker@20.10/overlay2", "layer:docker@20.10/fuse-overlayfs", "layer:docker@20.10/btrfs",
                     "build:docker@20.10/overlay2", "layer:containerd@1.6/overlayfs"),
    "docker-26.1": ("layer:docker@26.1/overlay2", "layer:docker@26.1/fuse-overlayfs", "layer:docker@26.1/btrfs",
                    "build:docker@26.1/overlay2+buildkit", "layer:containerd@1.7/overlayfs"),
    "docker-28": ("layer:docker@28/overlay2", "layer:docker@28/overlayfs", "layer:docker@28/fuse-overlayfs",
                  "layer:docker@28/btrfs", "build:docker@28/overlay2+buildkit", "layer:containerd@2.1/overlayfs"),
    "podman-5.8": ("layer:podman@5.8/overlay", "layer:podman@5.8/fuse-overlayfs"),
    "": ("bind:podman/overlay+runtime=crun", "bare", "bare@xfs", "bare@btrfs"),
}  # fmt: skip
#: Says the same of several releases.
UNTOLD = ("fuse-overlayfs",)
VERSION = re.compile(r"\bv?(\d+\.[\w.+~-]+)")


@pytest.fixture(scope="module")
def provision(tiny: Path) -> Iterator[Provision]:
    with (
        held_machine(f"releases-{os.getpid()}", find_paths(), True, Quiet()) as lease,
        Provision(spec_of(lease, tiny)) as made,
    ):
        yield made


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, marks=[pytest.mark.images(recipe)] if recipe else [])
        for recipe, arms in ARMS.items()
        for text in arms
    ],
)
def test_arm(provision: Provision, text: str, record_property: Callable[[str, object], None]) -> None:
    arm, suite = parse_arm(text), EngineSuite()
    if blocked := provision.ready(arm):
        pytest.skip(f"not run: {blocked.reason}; fix: {blocked.fix}")
    for fact in provision.facts():
        program, _, engine = fact.of.partition(" of ")
        version = VERSION.search(fact.text) if fact.kind is PROGRAM and engine == arm.engine else None
        if version and program not in UNTOLD:
            record_property(program, version[1])
    suite.test_runs_commands_in_an_empty_tree(provision, arm)
    suite.test_every_run_starts_from_the_same_state(provision, arm)
