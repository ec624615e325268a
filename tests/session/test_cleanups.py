"""What a kit leaves that is killed by SIGKILL while it makes something, or holds the machine, goes by kit clean."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.errors import MachineError
from kit.core.paths import Paths, apart, find_paths, is_run_directory
from kit.extra.guest.disk import cached_disk
from kit.host.recovery.journal import Cleaned
from kit.host.safe_fs import scratch
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from kit.session.setup.cleanups import clean_machine

_KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from kit.core.paths import apart, find_paths

home = Path(sys.argv[1])
paths = apart(replace(find_paths(), run=home / "run/kit"))

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Those of a worker that shares its machine."""
    monkeypatch.setenv("KIT_HOME", str(tmp_path))
    return apart(replace(find_paths(), run=tmp_path / "run/kit"))


@pytest.fixture
def killed(paths: Paths, tmp_path: Path) -> Callable[[str], None]:
    """Run a program that calls ``die`` amid what it does."""

    def run(program: str) -> None:
        done = subprocess.run([sys.executable, "-c", _KILLED + program, tmp_path], check=False)
        assert done.returncode == -signal.SIGKILL

    return run


@pytest.mark.promise("faults", "What a killed kit has left is removed by the next session or by `kit clean`.")
def test_the_run_directory_of_a_shared_worker(paths: Paths, killed: Callable[[str], None]) -> None:
    paths.lock.mkdir(parents=True)
    killed("""
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
with held_machine("20260101-000000-aaaa", paths, False, Quiet()):
    die()
""")
    assert paths.run.name.startswith("kit-") and list(paths.run.iterdir()) == [paths.run / "20260101-000000-aaaa"]
    (paths.run.parent / "kit").mkdir()
    cleaned = clean_machine(paths)
    assert not paths.run.exists() and (paths.run.parent / "kit").exists()
    assert f"20260101-000000-aaaa: removed empty directory {paths.run}" in cleaned.undone
    assert clean_machine(paths) == Cleaned()


@pytest.mark.promise("another user", "The kit uses no run directory that is a link, another user's or open to others.")
@pytest.mark.parametrize("way", ["link", "owner", "group", "all"])
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory to another user")
def test_a_run_directory_of_others_is_not_used(paths: Paths, tmp_path: Path, way: str) -> None:
    paths.lock.mkdir(parents=True)
    (tmp_path / "away").mkdir()
    paths.run.parent.mkdir()
    if way == "link":
        paths.run.symlink_to(tmp_path / "away")
    else:
        paths.run.mkdir()
        os.chown(paths.run, 4321 if way == "owner" else 0, 4321)
        paths.run.chmod({"owner": 0o755, "group": 0o775, "all": 0o1777}[way])
    before = paths.run.lstat()
    reason = {"link": "it is a link", "owner": "it belongs to user 4321"}.get(way, "others may write to it")
    with pytest.raises(MachineError, match=f"can't use {paths.run}: {reason}"):
        held_machine("20260101-000000-aaaa", paths, False, Quiet()).__enter__()
    assert paths.run.lstat().st_mode == before.st_mode and not list(paths.run.iterdir())


@pytest.mark.promise("faults", "What a killed kit has left is removed by the next session or by `kit clean`.")
def test_a_guests_disk_that_was_being_made(paths: Paths, killed: Callable[[str], None]) -> None:
    disks = paths.cache / "guest"
    disks.mkdir(parents=True)
    killed("""
from kit.extra.guest import disk
def fill(scratch):
    (scratch / "root").mkdir()
    (scratch / "root/file").write_text("x")
    return scratch / "root"
disk.publish = die
disk.cached_disk(paths.cache / "guest", "root", "key", fill, 0, print)
""")
    (half,) = disks.iterdir()
    assert (half / "disk.img").stat().st_size > 64 << 20
    assert clean_machine(paths).undone == (f"removed {half}, half made",)
    assert not list(disks.iterdir()) and clean_machine(paths) == Cleaned()


@pytest.mark.promise("faults", "What a killed kit has left is removed by the next session or by `kit clean`.")
@pytest.mark.parametrize("what", ["images", "inputs", "kernels", "engines"])
def test_anything_of_the_cache_that_was_being_made(paths: Paths, killed: Callable[[str], None], what: str) -> None:
    (paths.cache / what).mkdir(parents=True)
    (paths.cache / what / ".new-record-1").write_text("is written just now")
    (paths.cache / what / "whole").mkdir()
    killed(f"""
from kit.host.safe_fs import scratch
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
with scratch(paths.cache / {what!r}) as made:
    (made / "a/b").mkdir(parents=True)
    die()
""")
    assert len(list((paths.cache / what).iterdir())) == 3
    assert len(clean_machine(paths).undone) == 1
    assert {path.name for path in (paths.cache / what).iterdir()} == {".new-record-1", "whole"}


def test_what_is_being_made_stays(paths: Paths, tmp_path: Path) -> None:
    """As by another kit while kit clean runs."""
    disks = paths.cache / "guest"
    disks.mkdir(parents=True)
    with scratch(disks) as made:
        assert clean_machine(paths) == Cleaned() and made.is_dir()
    found, over = list[Path](), threading.Event()

    def sweep() -> None:
        while not over.is_set():
            clean_machine(paths)

    sweeping = threading.Thread(target=sweep)
    sweeping.start()
    try:
        for _ in range(200):
            with scratch(disks) as made:
                (made / "file").touch()
                found.append(made)
    finally:
        over.set()
        sweeping.join()
    assert len(found) == 200 and not list(disks.iterdir())


def test_a_guests_disk_is_rebuilt_after_a_kill(paths: Paths, killed: Callable[[str], None], tmp_path: Path) -> None:
    disks = paths.cache / "guest"
    disks.mkdir(parents=True)
    killed("""
from kit.extra.guest.disk import cached_disk
cached_disk(paths.cache / "guest", "root", "key", die, 0, print)
""")
    (tmp_path / "content").mkdir()
    made = cached_disk(disks, "root", "key", lambda scratch: tmp_path / "content", 0, print)
    assert made == disks / "root-key.img" and made.exists()


def test_a_journal_may_name_run_directories_alone() -> None:
    for path in ("/run/kit", "/run/kit-0a1b2c", "/tmp/kit-1000", "/tmp/kit-1000-0a1b2c", "/run/user/1000/kit"):
        assert is_run_directory(path), path
    for path in ("/run", "kit", "/kit", "/run/kit/x", "/run/../kit", "/a/../b/kit", "/run/kitchen", "/run/kit-x", ""):
        assert not is_run_directory(path), path
    assert is_run_directory(str(find_paths().run))
