"""Loop devices go with whoever made them, however that one ends."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

MAKE = """
import os, signal, sys
from pathlib import Path
from kit.arms.filesystem.block import loop_device
from kit.host.recovery.journal import Journal
from kit.session.setup.cleanups import CLEANUPS
journal = Journal(Path(sys.argv[1]) / "journals/20260101-000000-aaaa.journal", CLEANUPS)
image = Path(sys.argv[1]) / "loops/20260101-000000-aaaa.img"
image.parent.mkdir(exist_ok=True)
with loop_device(image, 1 << 26, journal) as loop:
    print(Path(f"/sys/block/{loop.name}/loop/autoclear").read_text(), image.exists())
    sys.stdout.flush()
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.promise("faults", "The kernel frees loop devices with the process that uses them.")
@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize(("end", "status"), [("ended", 0), ("killed", -signal.SIGKILL)])
def test_a_loop_device_is_freed_with_its_process(end: str, status: int, tmp_path: Path) -> None:
    """From its first moment on, before there is a filesystem on it."""
    done = subprocess.run(
        [sys.executable, "-c", MAKE, tmp_path, end], env=os.environ, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("1\n False\n", status), done.stderr
    backing = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    assert not [text for text in backing if str(tmp_path) in text]


#: A /dev of a container's own, in which the kernel makes no node.
_OWN_DEV = """
mount -t tmpfs none /dev
mknod /dev/null c 1 3
mknod /dev/loop-control c 10 237
exec "$@"
"""


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_container_without_the_machines_devices_is_told_how_to_have_them(tmp_path: Path) -> None:
    words = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-ec", _OWN_DEV, "sh"]
    done = subprocess.run(
        [*words, sys.executable, "-c", MAKE, tmp_path, "ended"], capture_output=True, text=True, check=False
    )
    assert re.search(r"no loop device: /dev/loop\d+: No such file or directory\n", done.stderr), done.stderr
    assert "; in a container: docker run --privileged --volume /dev:/dev …" in done.stderr
