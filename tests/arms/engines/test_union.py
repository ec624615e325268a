"""Unions of a FUSE daemon: one that dies leaves nothing behind, and none changes the image."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from kit.arms.engines import EngineConfig
from kit.arms.filesystem import BackingOptions
from kit.arms.filesystem.block import unmount
from kit.arms.image import ImageCache
from kit.arms.probe import probe_binary
from kit.core.errors import RunError
from kit.core.paths import find_paths
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import run
from kit.host.machine import read_host
from kit.host.mounts import mounts_below
from kit.host.recovery.journal import Journal
from kit.model.arm import parse_arm
from kit.model.session import new_session_id
from kit.session.setup.cleanups import CLEANUPS
from kit.session.setup.provision import Provision, ProvisionSpec

#: Runs the daemon of the same name, and kills it as soon as it has mounted. The kit stands still meanwhile, so it looks
#: for the mount when the daemon is dead.
_KILLED = """#!/bin/sh
kill -STOP $PPID
{program} "$@" &
for merged; do :; done
tries=0
until grep -q "$merged" /proc/self/mountinfo || [ $((tries += 1)) -gt 500 ]; do sleep 0.02; done
kill -9 $!
wait $!
kill -CONT $PPID
kill -9 $$
"""


@pytest.fixture(params=["mergerfs", "unionfs-fuse"])
def program(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if not shutil.which(name):
        pytest.skip(f"needs {name}")
    return name


@contextmanager
def provided(directory: Path, backing: Path, tiny: Path) -> Iterator[Provision]:
    """Yield the provision of a session whose arms have their trees in ``backing``."""
    name = new_session_id(time.time())
    journal = Journal(directory / "journal" / f"{name}.jsonl", CLEANUPS)
    (directory / "run").mkdir()
    setting = EngineConfig(name, directory / "run", probe_binary(find_paths().cache), journal, f"kit-{name}")
    with ExitStack() as stack:
        stack.callback(Cgroup.named(setting.cgroup).remove)
        image = ImageCache(directory / "cache").from_tarball(tiny)
        spec = ProvisionSpec(setting, read_host(), BackingOptions(directory=backing), image, None)
        yield stack.enter_context(Provision(spec))


@pytest.mark.promise("faults", "A killed FUSE daemon fails its run alone, and leaves nothing.")
@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_daemon_killed_as_a_run_begins_leaves_nothing(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    arm = parse_arm(f"union:{program}@dir")
    for directory in ("given", "programs"):
        (tmp_path / directory).mkdir()
    killed = tmp_path / "programs" / program
    killed.write_text(_KILLED.format(program=shutil.which(program)))
    killed.chmod(0o755)
    with provided(tmp_path, tmp_path / "given", tiny) as provision:
        assert provision.ready(arm) is None
        monkeypatch.setenv("PATH", f"{killed.parent}:{os.environ['PATH']}")
        with pytest.raises(RunError), provision.sandbox(arm):
            pass
        monkeypatch.undo()
        with provision.sandbox(arm):
            pass
    assert mounts_below(tmp_path) == () and not list((tmp_path / "given").iterdir())


@pytest.mark.promise("a workload", "A run changes nothing of the root filesystem that the next run sees.")
@pytest.mark.machine
@pytest.mark.unmeasured
def test_no_run_changes_the_image_of_the_next(tmp_path: Path, tiny: Path, program: str) -> None:
    """On a filesystem that has less than the 4 GiB free which mergerfs asks for by default."""
    arm = parse_arm(f"union:{program}@dir")
    small = tmp_path / "small"
    small.mkdir()
    with mounted_tmpfs(small, "2G"), provided(tmp_path, small, tiny) as provision:
        assert provision.ready(arm) is None
        for _ in range(2):
            with provision.sandbox(arm):
                (union,) = (mount.path for mount in mounts_below(tmp_path) if mount.type.startswith("fuse"))
                file = next(path for path in sorted((union / "bin").iterdir()) if path.is_file())
                assert b"of-this-run" not in file.read_bytes()
                with suppress(OSError), file.open("ab") as opened:
                    opened.write(b"of-this-run")
                (union / "new").write_text("new")


@contextmanager
def mounted_tmpfs(where: Path, size: str) -> Iterator[None]:
    run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", where])
    try:
        yield
    finally:
        unmount(where)
