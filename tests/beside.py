"""Machine tests beside each other: what keeps the workers of pytest-xdist apart, on one machine.

The kit holds the machine for one session by a lock on /run, and has in it what a session needs there. A worker sees a
/run of its own, in a mount namespace of its own, and has a KIT_HOME; images are made once for all workers. What
measures, and what can't share the machine, is run while the others wait.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest

from kit.core.flock import try_lock
from kit.core.paths import find_paths
from kit.host.cgroup.idle_load import kit_pids
from kit.host.command import run
from kit.host.namespace import enter_private_mounts
from kit.session.setup.caches import DROP_CACHES
from tests.builder import MEASURED, locked, stage

#: Files of which one worker runs all, and tests, by what is dear in them: daemons, a build, a browser, a server, a
#: sandbox, the disks of a guest, the machine's settings.
TOGETHER = {
    "machine/test_engines.py": "bench",
    "machine/test_yocto.py": "bitbake",
    "machine/test_tasks.py": "bitbake",
    "machine/test_buildkit.py": "buildkit",
    "machine/test_container.py": "container",
    "machine/test_docker_29.py": "docker-29",
    "machine/test_nested.py": "nested",
    "machine/test_nydus.py": "nydus",
    "extra/web/test_pages.py": "browser",
    "extra/tracing/test_flame.py": "browser",
    "extra/sharing/test_dashboard.py": "postgresql",
    "store/test_exchange.py": "postgresql",
    "store/test_outbox_flush.py": "postgresql",
    "extra/sharing/test_roles.py": "postgresql",
    "machine/test_docs.py": "sandbox",
    "machine/test_settings.py": "settings",
    "machine/test_guest.py::test_a_session_in_a_guest": "disks",
    "machine/test_nfs.py::test_server_and_client_in_one_guest": "disks",
}
#: How a session that holds the machine says so in /proc/net/unix (kit.host.lock): its process and its name.
_HELD = re.compile(r" @kit holds the machine/(\d+)/[\d:]+/(.+)$", re.MULTILINE)


def group(nodeid: str) -> str:
    """Which tests one worker runs together, given the id of one; pytest-xdist's own groups are lost with pytest 9.2."""
    path, _, test = nodeid.partition("::")
    file = path.rpartition("tests/")[2]
    return TOGETHER.get(f"{file}::{test}") or TOGETHER.get(file, nodeid)


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _base() -> Path:
    """This worker's directory, beside those of the others."""
    return find_paths().data.parents[1]


@contextmanager
def apart(config: pytest.Config) -> Iterator[None]:
    """A worker's own /run, and the images of all."""
    if not is_worker(config):
        yield
        return
    images, mine, scratch = _base().parent / "images", find_paths().cache / "images", _base() / "run"
    for path in (images, mine, scratch):
        path.mkdir(parents=True, exist_ok=True)
    # What is started here knows of no worker; and of no terminal, which GNU Readline told whoever started this one.
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")] + ["COLUMNS", "LINES"]:
        os.environ.pop(name, None)
    enter_private_mounts()
    own_run(scratch)
    with ExitStack() as stack:
        directory = os.open(images, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, directory)
        fcntl.flock(directory, fcntl.LOCK_SH)
        run(["mount", "--bind", images, mine])
        try:
            yield
        finally:
            run(["umount", mine])
            if try_lock(directory):  # the last of all workers
                shutil.rmtree(images)


def own_run(scratch: Path) -> None:
    """Lay another directory over /run, in which all is but what is the kit's."""
    run(["mount", "-t", "tmpfs", "-o", "mode=755", "kit-tests", scratch])
    for path in Path("/run").iterdir():
        place = scratch / path.name
        if path.is_symlink():
            place.symlink_to(path.readlink())
        elif path.name != "kit":
            place.mkdir() if path.is_dir() else place.touch()
            # An empty one may be another session's, which removes it at its end.
            if not path.is_dir() or path.is_mount() or any(path.iterdir()):
                run(["mount", "--rbind", path, place])
    run(["mount", "--move", scratch, "/run"])


def held_for(item: pytest.Item) -> AbstractContextManager[None]:
    """The machine, for this test alone where it measures, else together with tests of other workers."""
    if not is_worker(item.config) or stage(item) == 0:
        return nullcontext()
    common = Path(item.config.option.basetemp).parent
    return locked(common, fcntl.LOCK_EX if stage(item) >= MEASURED else fcntl.LOCK_SH)


def leave_caches(item: pytest.Item) -> None:
    """What is dropped before a run is read anew by all workers, forty times a minute: a worker's sessions drop the
    machine's caches where they measure, else write to a file that is nobody's. Nor where users are mapped: the kernel
    mounts /proc for them only where nothing of it is covered (mount_too_revealing in fs/namespace.c)."""
    if not is_worker(item.config) or stage(item) == 0:
        return
    left = f" {DROP_CACHES} " in Path("/proc/self/mountinfo").read_text()
    wanted = stage(item) < MEASURED and not item.get_closest_marker("maps_users")
    if left and not wanted:
        run(["umount", DROP_CACHES])
    elif wanted and not left:
        (_base() / DROP_CACHES.name).touch()
        run(["mount", "--bind", _base() / DROP_CACHES.name, DROP_CACHES])


def sessions_of_others() -> set[str]:
    """Names of other workers' sessions, also of dead ones, and of those that anybody else holds the machine for."""
    base, started = _base(), kit_pids()
    workers = {name for other in base.parent.glob("popen-*") if other != base for name in _sessions(other)}
    text = Path("/proc/net/unix").read_text(errors="replace")
    return (workers - _sessions(base)) | {name for pid, name in _HELD.findall(text) if int(pid) not in started}


def _sessions(base: Path) -> set[str]:
    return {path.name for part in ("data", "data/fleet") for path in base.glob(f"home*/{part}/logs/*")}
