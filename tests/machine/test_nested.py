"""Engines in a container of another engine, on real ones. The engine suite has more arms of theirs."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.arms.engines import Sandbox
from kit.core.paths import find_paths
from kit.host.mounts import mount_of
from kit.model.arm import parse_arm
from kit.model.fact import DRIVER_STATUS
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from kit.session.setup.provision import Provision
from tests.engine_suite import sh, spec_of
from tests.leftovers import left_on_machine

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured(clean=True)]

VFS, OVERLAY = "layer:docker/overlay2/podman/vfs", "layer:docker/overlay2/docker/overlay2"


@pytest.fixture(scope="module")
def provision(tiny: Path) -> Iterator[Provision]:
    with held_machine("nested", find_paths(), True, Quiet()) as lease, Provision(spec_of(lease, tiny)) as made:
        yield made
    assert left_on_machine() == []


def status_of(process: int) -> dict[str, str]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {key: text.strip() for key, _, text in (line.partition(":") for line in lines)}


def probe(sandbox: Sandbox) -> int:
    """The first process of the inner container."""
    return sandbox.probe.pid


def test_the_inner_container_runs_in_the_outer_one(provision: Provision) -> None:
    assert provision.ready(parse_arm(VFS)) is None
    with provision.sandbox(parse_arm(VFS)) as inner:
        # The machine's, the outer container's and its own.
        assert len(status_of(probe(inner))["NSpid"].split()) >= 3
        root = mount_of(Path("/"), probe(inner))
        assert root.type == "overlay" and "/vfs/dir/" in root.root and "upperdir=" in root.shared
        assert inner.cgroup is not None
        outer, _, own = inner.cgroup.name.partition("/1/")
        assert re.fullmatch(r"kit-nested/n/d1-containers/[0-9a-f]{64}", outer) and own


def test_overlay_on_overlay_names_the_volume_and_runs_there(provision: Provision) -> None:
    blocked = provision.ready(parse_arm(OVERLAY))
    if blocked:  # as every kernel so far
        assert blocked.reason.startswith("overlay2 on layer:overlay2: ") and "+data-root=volume" in blocked.fix
    arm = parse_arm(f"{OVERLAY}+data-root=volume")
    assert provision.ready(arm) is None
    with provision.sandbox(arm) as sandbox:
        assert sh(sandbox, "echo here > file; cat file")[1] == "here\n"
        root = mount_of(Path("/"), probe(sandbox))
        assert root.type == "overlay" and re.search(r"upperdir=\S+/volumes/\S+/_data/", root.shared)
    found = {fact.of: fact.text for fact in provision.facts() if fact.kind is DRIVER_STATUS}
    assert "Native Overlay Diff" in found["overlay2 on volume:overlay2"] and "overlay2 on ext4" in found
