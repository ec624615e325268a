"""What arms of one session share on a filesystem, and what they do not."""

import os
import tarfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from kit.core.paths import find_paths
from kit.engines import Setting
from kit.filesystem import BackingOptions, bundled, find_profile
from kit.filesystem.mounted import unconfirmed
from kit.host.cgroup import Cgroup
from kit.host.journal import Journal
from kit.host.machine import read_host
from kit.host.mounts import Mount
from kit.image import ImageCache
from kit.model.arm import parse_arm
from kit.probe import probe_binary
from kit.session.cleanups import CLEANUPS
from kit.session.provision import Provision, ProvisionSpec


@pytest.mark.skipif(os.geteuid() != 0, reason="bare arms need root")
def test_a_control_has_a_plain_root_of_its_own_and_others_share_theirs(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("x")
    with tarfile.open(tmp_path / "root.tar", "w") as tar:
        tar.add(tmp_path / "tool", "usr/bin/tool")
    image = ImageCache(tmp_path / "cache").from_tarball(tmp_path / "root.tar")
    setting = Setting(
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
    setting = Setting(name, tmp_path / "run", probe_binary(find_paths().cache), journal, f"kit-{name}")
    arm = parse_arm("host@dir")
    with ExitStack() as stack:
        stack.callback(Cgroup.named(setting.cgroup).remove)
        supplies = ProvisionSpec(setting, read_host(), BackingOptions(directory=theirs), None, None)
        provision = stack.enter_context(Provision(supplies))
        assert provision.ready(arm) is None
        with provision.fresh_place(arm):
            assert sorted(path.name for path in theirs.iterdir()) == [f"kit-{name}", f"kit-{name}-f1"]
    assert not list(theirs.iterdir())


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
