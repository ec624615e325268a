"""A union whose FUSE daemon dies leaves nothing behind."""

import os
import shutil
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from kit.core.errors import RunError
from kit.core.paths import find_paths
from kit.engines import EngineConfig
from kit.filesystem import BackingOptions
from kit.host.cgroup.cgroup import Cgroup
from kit.host.machine import read_host
from kit.host.mounts import mounts_below
from kit.host.recovery.journal import Journal
from kit.image import ImageCache
from kit.model.arm import parse_arm
from kit.model.session import new_session_id
from kit.probe import probe_binary
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


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize("program", ["mergerfs", "unionfs-fuse"])
def test_a_daemon_killed_as_a_run_begins_leaves_nothing(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    real = shutil.which(program)
    if not real:
        pytest.skip(f"needs {program}")
    name, arm = new_session_id(time.time()), parse_arm(f"union:{program}@dir")
    journal = Journal(tmp_path / "journal" / f"{name}.jsonl", CLEANUPS)
    for directory in ("run", "given", "programs"):
        (tmp_path / directory).mkdir()
    killed = tmp_path / "programs" / program
    killed.write_text(_KILLED.format(program=real))
    killed.chmod(0o755)
    setting = EngineConfig(name, tmp_path / "run", probe_binary(find_paths().cache), journal, f"kit-{name}")
    with ExitStack() as stack:
        stack.callback(Cgroup.named(setting.cgroup).remove)
        image = ImageCache(tmp_path / "cache").from_tarball(tiny)
        spec = ProvisionSpec(setting, read_host(), BackingOptions(directory=tmp_path / "given"), image, None)
        provision = stack.enter_context(Provision(spec))
        assert provision.ready(arm) is None
        monkeypatch.setenv("PATH", f"{killed.parent}:{os.environ['PATH']}")
        with pytest.raises(RunError), provision.sandbox(arm):
            pass
        monkeypatch.undo()
        with provision.sandbox(arm):
            pass
    assert mounts_below(tmp_path) == () and not list((tmp_path / "given").iterdir())
