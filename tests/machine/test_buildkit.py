"""BuildKit without Docker: the engine suite on a buildkitd that is installed, or that is built from Go modules."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.core.paths import find_paths
from kit.filesystem import BackingOptions
from kit.filesystem.backing import GIB
from kit.host.machine import read_host
from kit.image import ImageCache
from kit.model.arm import Arm, parse_arm
from kit.model.fact import PROGRAM
from kit.parsers import parse_report
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from kit.session.setup.provision import Provision, ProvisionSpec
from tests.engine_suite import EngineSuite

#: Its programs take about three minutes of CPU to build.
ASKED = bool(os.environ.get("KIT_TEST_BUILDKIT"))
ENGINE = "buildkit@0.34" if ASKED else "buildkit"
pytestmark = [
    pytest.mark.machine,
    pytest.mark.unmeasured,
    pytest.mark.images(*(["buildkit-0.34"] if ASKED else [])),
    pytest.mark.skipif(
        not ASKED and not shutil.which("buildkitd"),
        reason="buildkitd is not installed, and KIT_TEST_BUILDKIT is not set: building it takes three minutes of CPU",
    ),
]


@pytest.fixture(scope="module")
def provision(tiny: Path) -> Iterator[Provision]:
    with held_machine("buildkit", find_paths(), True, Quiet()) as lease:
        image = ImageCache(lease.paths.cache).from_tarball(tiny)
        inputs = lease.paths.cache / "some-inputs"
        inputs.mkdir(exist_ok=True)
        (inputs / "given").write_text("an input")
        options = BackingOptions(size=16 * GIB, images=lease.paths.state / "loops")
        with Provision(ProvisionSpec(lease.setting, read_host(), options, image, inputs)) as made:
            yield made


@pytest.fixture(params=["overlayfs", "native", "fuse-overlayfs", "overlayfs+mount=cache"])
def arm(request: pytest.FixtureRequest, provision: Provision) -> Arm:
    found = parse_arm(f"build:{ENGINE}/{request.param}")
    assert provision.ready(found) is None
    return found


class TestBuildkit(EngineSuite):
    pass


@pytest.mark.parametrize(("cache", "ran"), [("warm", False), ("changed", True)])
def test_a_rebuild_runs_only_what_a_change_concerns(provision: Provision, cache: str, ran: bool) -> None:
    arm = parse_arm(f"build:{ENGINE}/overlayfs+cache={cache}")
    assert provision.ready(arm) is None
    command = ["sh", "-c", "echo it ran; cat /kit-inputs/given"]
    with provision.sandbox(arm) as sandbox, tempfile.TemporaryFile() as output:
        sandbox.rehearse([(command, ".")])
        assert sandbox.run(command, ".", output).ok
        output.seek(0)
        assert output.read().decode() == ("it ran\nan input" if ran else "")
        report = parse_report(sandbox.report_format, sandbox.report()).summed()
    found = {figure.name: figure.value for figure in report.figures}
    assert ("build: run" in found) == ran
    assert found["image size"]
    assert {"build: lookup", "build: export"} <= found.keys()


def test_it_is_told_which_buildkit_built(provision: Provision) -> None:
    arm = parse_arm(f"build:{ENGINE}/overlayfs")
    assert provision.ready(arm) is None
    programs = {fact.of: fact.text for fact in provision.facts() if fact.kind is PROGRAM}
    assert "github.com/moby/buildkit" in programs[f"buildkitd of {arm.engine}"]
