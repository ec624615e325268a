"""What is half made when the kit is killed is removed by the next one; what is being made is not."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kit.core.paths import Paths
from kit.host.safe_fs import remove_abandoned, scratch
from kit.session.setup.cleanups import clean_machine

MAKE = """
import sys, time
from pathlib import Path
from kit.host.safe_fs import scratch
with scratch(Path(sys.argv[1])) as directory:
    (directory / "half").mkdir()
    print(directory, flush=True)
    time.sleep(1000)
"""


@pytest.mark.promise("faults", "What a killed kit has left is removed by the next session or by `kit clean`.")
def test_what_a_killed_kit_was_making_is_removed_once_it_is_dead(tmp_path: Path) -> None:
    images = tmp_path / "cache/images"
    images.mkdir(parents=True)
    paths = Paths(tmp_path / "data", tmp_path / "cache", tmp_path / "state", tmp_path / "run", tmp_path)
    with subprocess.Popen([sys.executable, "-c", MAKE, images], stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout
        made = Path(maker.stdout.readline().strip())
        assert clean_machine(paths).undone == () and (made / "half").is_dir()
        maker.send_signal(signal.SIGKILL)
    with scratch(images) as mine:
        assert clean_machine(paths).undone == (f"removed {made}, half made",)
        assert [path.name for path in images.iterdir()] == [mine.name]
    assert list(images.iterdir()) == []


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / ".scratch-x").symlink_to(tmp_path / "mine")
    assert remove_abandoned(tmp_path) == ([], [])
    assert (tmp_path / "mine").is_dir()
