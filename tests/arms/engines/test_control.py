"""What an arm can do to the directory of its probe, which lies in the host's /run."""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from kit.arms.engines import EngineConfig
from kit.arms.filesystem import BackingOptions
from kit.arms.image import ImageCache
from kit.arms.probe import probe_binary
from kit.core.paths import find_paths
from kit.host.cgroup.cgroup import Cgroup
from kit.host.machine import read_host
from kit.host.recovery.journal import Journal
from kit.model.arm import parse_arm
from kit.model.session import new_session_id
from kit.session.setup.cleanups import CLEANUPS
from kit.session.setup.provision import Provision, ProvisionSpec
from tests.engine_suite import EngineSuite

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]


@pytest.mark.promise("a workload", "A workload writes nothing beside the kit's timer.")
@pytest.mark.parametrize("text", ["bare@dir", "union:overlay@dir"])
def test_an_arm_without_an_engine_writes_nothing_there(tmp_path: Path, tiny: Path, text: str) -> None:
    """The same as every engine's suite tries, on a directory that others do not look into, as another user too."""
    # Another worker may run the other arm now, and what ends a session kills what is in the groups of its name.
    name, arm, suite = new_session_id(time.time()), parse_arm(text), EngineSuite()
    journal = Journal(tmp_path / "journal" / f"{name}.jsonl", CLEANUPS)
    for directory in ("run", "given"):
        (tmp_path / directory).mkdir()
    setting = EngineConfig(name, tmp_path / "run", probe_binary(find_paths().cache), journal, f"kit-{name}")
    with ExitStack() as stack:
        stack.callback(Cgroup.named(setting.cgroup).remove)
        image = ImageCache(tmp_path / "cache").from_tarball(tiny)
        spec = ProvisionSpec(setting, read_host(), BackingOptions(directory=tmp_path / "given"), image, None)
        provision = stack.enter_context(Provision(spec))
        assert provision.ready(arm) is None
        suite.test_nothing_is_written_beside_the_probe(provision, arm)
        suite.test_commands_run_as_another_user_and_skip_syncs_on_request(provision, arm)
        suite.test_every_run_starts_from_the_same_state(provision, arm)
    assert not list((tmp_path / "given").iterdir())
