"""What an image takes, once for each container, and as its builder states it: docs/explanation/drivers.md has these."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.core.paths import find_paths
from kit.model.arm import parse_arm
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from kit.session.measure.context import MachineLease
from kit.session.setup.provision import Provision
from tests.engine_suite import rebuilt, sh, some_inputs, spec_of

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured, pytest.mark.images("docker-26.1")]

MIB = 1 << 20
SIZE = 64


@pytest.fixture(scope="module")
def lease() -> Iterator[MachineLease]:
    with held_machine(f"image-space-{os.getpid()}", find_paths(), True, Quiet()) as held:
        yield held


@pytest.fixture(scope="module")
def provision(lease: MachineLease, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provision]:
    """Of an image with a file that does not compress, and one that does."""
    directory = tmp_path_factory.mktemp("large")
    (directory / "random").write_bytes(os.urandom(SIZE * MIB))
    (directory / "zeros").write_bytes(b"0" * SIZE * MIB)
    image = directory / "large.tar"
    image.write_bytes(tiny.read_bytes())
    with tarfile.open(image, "a") as tar:
        for name in ("random", "zeros"):
            tar.add(directory / name, f"./{name}")
    with Provision(spec_of(lease, image, some_inputs(lease))) as made:
        yield made


@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs"])
@pytest.mark.parametrize(("text", "copies"), [("layer:vfs", 2), ("layer:podman/vfs", 1)])
def test_vfs_copies_or_clones_the_image(provision: Provision, text: str, copies: int, filesystem: str) -> None:
    arm = parse_arm(f"{text}@{filesystem}")
    if blocked := provision.ready(arm):
        pytest.skip(f"not run: {blocked.reason}; fix: {blocked.fix}")
    with provision.sandbox(arm) as sandbox:
        backing = sandbox.backing
    backing.sync()
    before = os.statvfs(backing.path)
    with provision.sandbox(arm) as sandbox:
        assert sh(sandbox, "test -e /zeros")[0].exit_code == 0
        backing.sync()
        after = os.statvfs(backing.path)
    taken = (before.f_bfree - after.f_bfree) * after.f_frsize / MIB
    print(f"{arm}: {taken:.1f} MiB of an image of {2 * SIZE} MiB")
    expected = 2 * SIZE * copies if filesystem == "ext4" else 0
    assert expected - 1 < taken < expected + 8


def test_a_compressed_size_has_another_name(provision: Provision) -> None:
    """Docker's image store states the size of compressed layers, which is no smaller image."""
    sizes: dict[str, float | None] = {}
    for driver in ("overlay2", "overlayfs"):
        _, figures = rebuilt(provision, f"build:docker@26.1/{driver}+buildkit+cache=warm")
        sizes |= {name: value for name, value in figures.items() if name.startswith("image size")}
    print(sizes)
    assert set(sizes) == {"image size", "image size, compressed"}
    assert (sizes["image size, compressed"] or 0) < 0.75 * (sizes["image size"] or 0)
