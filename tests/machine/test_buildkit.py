"""BuildKit without Docker: the engine suite on a buildkitd that is installed, or that is built from Go modules."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.core.paths import find_paths
from kit.model.arm import Arm, parse_arm
from kit.model.fact import PROGRAM
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from kit.session.setup.provision import Provision
from tests.engine_suite import EngineSuite, rebuilt, some_inputs, spec_of

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
    with (
        held_machine("buildkit", find_paths(), True, Quiet()) as lease,
        Provision(spec_of(lease, tiny, some_inputs(lease))) as made,
    ):
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
    said, found = rebuilt(provision, f"build:{ENGINE}/overlayfs+cache={cache}")
    assert said == ("it ran\nan input" if ran else "")
    assert ("build: run" in found) == ran
    assert found["image size, compressed"]
    assert {"build: lookup", "build: export"} <= found.keys()


def test_it_is_told_which_buildkit_built(provision: Provision) -> None:
    arm = parse_arm(f"build:{ENGINE}/overlayfs")
    assert provision.ready(arm) is None
    programs = {fact.of: fact.text for fact in provision.facts() if fact.kind is PROGRAM}
    assert "github.com/moby/buildkit" in programs[f"buildkitd of {arm.engine}"]
