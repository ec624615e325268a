"""containerd 2.1 with the lazy snapshotter Nydus: nydusd is built from a Rust crate."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kit.arms.image.rust_programs import missing_tools
from kit.core.paths import find_paths
from kit.model.arm import parse_arm
from kit.model.fact import PROGRAM
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from kit.session.setup.provision import Provision
from tests.command_line import Kit
from tests.engine_suite import EngineSuite, spec_of
from tests.leftovers import left_on_machine
from tests.machine.arms import reporting
from tests.needs import needs
from tests.waiting import wait_until


def _lacking() -> str:
    """Return why the tests can't run, or ''."""
    if not os.environ.get("KIT_TEST_NYDUS"):
        return "KIT_TEST_NYDUS is not set: building nydusd takes ten minutes of CPU"
    if not Path("/dev/fuse").exists():
        return "needs a kernel with FUSE"
    return f"needs {', '.join(tools)}, to build nydusd" if (tools := missing_tools()) else ""


LACKING = _lacking()
ROOT = "containerd-2.1-nydus"
pytestmark = [
    pytest.mark.machine,
    pytest.mark.images(*([] if LACKING else [ROOT, "storage"])),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]
ORDINARY, LAZY = "layer:containerd@2.1-nydus/overlayfs", "layer:containerd@2.1-nydus/nydus"
PULL = ("compare", "pull:short", "--param", "compression=nydus", "--size", "6G")


@pytest.mark.unmeasured
def test_the_snapshotter_runs_ordinary_images_too(tiny: Path) -> None:
    suite = EngineSuite()
    with held_machine("nydus", find_paths(), True, Quiet()) as lease, Provision(spec_of(lease, tiny)) as made:
        arms = [parse_arm(text) for text in (ORDINARY, LAZY)]
        assert made.all_ready(arms) == {}
        for arm in arms:
            suite.test_runs_commands_in_an_empty_tree(made, arm)
            suite.test_every_run_starts_from_the_same_state(made, arm)
        facts = {fact.key: fact.text for fact in made.facts() if fact.kind is PROGRAM}
    assert " 2.1." in facts["containerd of containerd@2.1-nydus"]


@pytest.mark.unmeasured
@needs("docker-registry")
def test_it_fetches_what_a_container_reads(kit: Kit, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = kit(*PULL, "--arms", f"bare,{ORDINARY},{LAZY}", "--rounds", "1", "--json", out, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert {item["status"] for item in found["samples"]} == {"ok"}
    holding = reporting(found, "disk used by the pulled image")
    assert {ORDINARY} <= holding <= {"bare", ORDINARY}  # after a lazy pull the disk holds next to nothing


@pytest.mark.unmeasured(clean=True)
@needs("docker-registry")
def test_nothing_is_left_of_a_killed_session(kit: Kit) -> None:
    """nydusd is a child of the snapshotter's, in a control group of the session's and in its mount namespace."""
    command = [sys.executable, "-m", "kit", *PULL, "--arms", LAZY, "--rounds", "3"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(_serving, 300, process)
    (session,) = _serving()
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    assert "removed cgroup" in kit("clean").stdout
    assert [item for item in left_on_machine() if session in item] == []


def _serving() -> set[str]:
    """Return the sessions with a nydusd."""
    found = (re.search(r"nydusd fuse .*/run/kit/([^/]+)/", item) for item in left_on_machine())
    return {match[1] for match in found if match}
