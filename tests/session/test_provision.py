"""What arms of one session share on a filesystem, and what they do not."""

import os
import tarfile
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from kit.arms.engines import BackingRoot, EngineConfig
from kit.arms.engines.bare import BareEngine
from kit.arms.filesystem import BackingOptions, bundled, find_profile
from kit.arms.filesystem.mounted import unconfirmed
from kit.arms.image import ImageCache
from kit.arms.probe import probe_binary
from kit.core.errors import RunError
from kit.core.paths import find_paths
from kit.host.cgroup.cgroup import Cgroup
from kit.host.machine import read_host
from kit.host.mounts import Mount
from kit.host.recovery.journal import Journal
from kit.model.arm import Arm, parse_arm
from kit.session.setup.cleanups import CLEANUPS
from kit.session.setup.provision import Provision, ProvisionSpec


@pytest.mark.skipif(os.geteuid() != 0, reason="bare arms need root")
def test_a_control_has_a_plain_root_of_its_own_and_others_share_theirs(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("x")
    with tarfile.open(tmp_path / "root.tar", "w") as tar:
        tar.add(tmp_path / "tool", "usr/bin/tool")
    image = ImageCache(tmp_path / "cache").from_tarball(tmp_path / "root.tar")
    setting = EngineConfig(
        "x", tmp_path, probe_binary(find_paths().cache), Journal(tmp_path / "journal" / "x.jsonl", CLEANUPS), "none"
    )
    directory = tmp_path / "dir"
    directory.mkdir()
    options = BackingOptions(directory=directory)
    arm = parse_arm("bare@dir")
    with Provision(ProvisionSpec(setting, read_host(), options, image, None)) as provision:
        assert provision.ready(arm) is None and provision.ready(arm.copy()) is None
        tools = sorted(directory.rglob("tool"))
        assert len(tools) == 2 and not tools[0].samefile(tools[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="bare arms need root")
def test_a_fresh_place_has_a_directory_of_its_own_that_bears_the_sessions_name(tmp_path: Path) -> None:
    """In a directory of the user's, where the journal takes nothing that does not."""
    name, theirs = "20260101-000000-abcd", tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "run").mkdir()
    journal = Journal(tmp_path / "state" / "journal" / f"{name}.jsonl", CLEANUPS)
    setting = EngineConfig(name, tmp_path / "run", probe_binary(find_paths().cache), journal, f"kit-{name}")
    arm = parse_arm("host@dir")
    with ExitStack() as stack:
        stack.callback(Cgroup.named(setting.cgroup).remove)
        supplies = ProvisionSpec(setting, read_host(), BackingOptions(directory=theirs), None, None)
        provision = stack.enter_context(Provision(supplies))
        assert provision.ready(arm) is None
        with provision.fresh_sandbox(arm):
            assert sorted(path.name for path in theirs.iterdir()) == [f"kit-{name}", f"kit-{name}-f1"]
    assert not list(theirs.iterdir())


class SlowEngine(BareEngine):
    """Starts when all drivers' daemons are being started; that of btrfs does not, vfs takes no image."""

    def __init__(self, setting: EngineConfig, all_here: threading.Barrier, did: list[str]) -> None:
        super().__init__(setting)
        self.all_here = all_here
        self.did = did

    def start(self, arm: Arm, backing_root: BackingRoot) -> None:
        if f"start {arm.driver}" not in self.did:
            self.did.append(f"start {arm.driver}")
            self.all_here.wait(60)
            if arm.driver == "btrfs":
                raise RunError("it is broken", "mend it")

    def fill(self, arm: Arm, backing_root: BackingRoot) -> None:
        if arm.driver == "vfs":
            raise OSError(28, "No space left on device", "/there")
        self.did.append(f"fill {arm}")

    def close(self) -> None:
        self.did.append("close")


def test_daemons_start_side_by_side_and_what_fails_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    told: list[str] = []
    engine = SlowEngine(
        EngineConfig("x", tmp_path, tmp_path, Journal(tmp_path / "journal" / "x.jsonl", CLEANUPS), "none"),
        threading.Barrier(3), did,
    )  # fmt: skip
    monkeypatch.setattr("kit.session.setup.provision.make_engine", lambda name, setting: engine)
    (tmp_path / "dir").mkdir()
    options = BackingOptions(directory=tmp_path / "dir")
    arms = [parse_arm(f"{text}@dir") for text in ("layer:btrfs", "layer:overlay2", "layer:vfs", "bind:overlay2")]
    with Provision(ProvisionSpec(engine.setting, read_host(), options, None, None)) as provision:
        not_run = provision.all_ready(arms, told.append)
        assert sorted(did[:3]) == ["start btrfs", "start overlay2", "start vfs"]
        assert did[3:] == ["fill layer:overlay2@dir", "fill bind:overlay2@dir"]
        assert told == [f"setting up {arm}" for arm in arms[1:]]
        assert {str(arm): (found.arm, found.reason) for arm, found in not_run.items()} == {
            "layer:btrfs@dir": ("layer:btrfs@dir", "it is broken"),
            "layer:vfs@dir": ("layer:vfs@dir", "/there: No space left on device"),
        }
        assert provision.ready(arms[1]) is None
    assert did[-1] == "close"


def test_btrfs_does_not_discard_behind_the_next_run() -> None:
    options = BackingOptions()
    names = [name for name, profile in bundled().items() if profile.type == "btrfs"]
    assert len(names) == 3
    for name in names:
        assert "nodiscard" in options.mount_options(find_profile(name, options))
    wanted = BackingOptions(mount=(("btrfs", "discard=async"),))
    assert wanted.mount_options(find_profile("btrfs", wanted)) == ("discard=async",)


def test_an_option_whose_opposite_is_not_shown_is_in_force() -> None:
    mount = Mount("0:44", Path("/x"), "btrfs", "/dev/loop0", "rw,relatime,space_cache=v2")
    assert unconfirmed("btrfs", ("nodiscard",), mount) == ()
