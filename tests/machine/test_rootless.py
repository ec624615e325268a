"""Podman without root: an ordinary user, made up in a mount namespace of the test's own."""

import json
import os
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from kit.arms.image.mmdebstrap import run_mmdebstrap
from kit.core.errors import MachineError
from kit.core.exit_code import NOT_RUN
from tests.ordinary_user import COUNT, FIRST, USER, made_up_user, ordinary_user
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured, pytest.mark.maps_users]


def processes() -> list[str]:
    """Of the user and of the numbers that it has been given; those that only wait to be reaped are gone."""
    found = []
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            status = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        uid = int(status["Uid"].split()[0])
        if (uid == USER or FIRST <= uid < FIRST + COUNT) and "zombie" not in status["State"]:
            found.append(status["Name"].strip())
    return found


def test_rootless_podman_measures_and_leaves_nothing(tiny: Path) -> None:
    with made_up_user() as account:
        shutil.copy(tiny, account.directory / "tiny.tar")
        with tarfile.open(account.directory / "tiny.tar", "a") as tar:
            for name in ("./dev/null", "./srv/null"):
                node = tarfile.TarInfo(name)
                node.type, node.devmajor, node.devminor, node.mode = tarfile.CHRTYPE, 1, 3, 0o666
                tar.addfile(node)
        (account.directory / "tiny.tar").chmod(0o644)
        home = account.home / "kit"
        home.mkdir(0o775)  # as umask 002 makes it
        account.give(home)
        arms = "host@dir,bind:podman/overlay@dir,layer:podman/overlay@dir,runtime:podman/overlay@dir,layer:overlay2@dir"
        done = account.run(
            account.python, "-m", "kit", "compare", "--image", account.directory / "tiny.tar", "--arms", arms,
            "--baseline", "host@dir", "--rounds", "2", "--cache", "cold", "--json", "out.json",
            "--", "sh", "-c", "echo x > f; echo kept", env={"KIT_HOME": str(home)},
        )  # fmt: skip
        assert done.returncode == NOT_RUN, done.stderr + done.stdout
        found = json.loads((account.home / "out.json").read_text())
        blocked = {item["arm"] for item in found["session"]["not_run"]}
        assert blocked == {"runtime:podman/overlay@dir", "layer:overlay2@dir"}
        assert found["session"]["facts"]["podman runs"] == "rootless"
        ran = {row["arm"] for row in found["samples"] if row["status"] == "ok"}
        assert ran == {"host@dir", "bind:podman/overlay@dir", "layer:podman/overlay@dir"}
        wait_until(lambda: not processes())
        left = {path.name for path in (home / "state").rglob("*")}
        assert left - {"machine-id"} == {"journal", "loops"}  # that of a machine whose system has none
        assert not [name for name in os.listdir(account.home) if name.startswith(".local")]
        for directory in ("cache", "cache/images", "data", "state"):
            assert (home / directory).stat().st_mode & 0o022 == 0, directory


def test_mmdebstrap_unpacks_for_a_user_whose_home_is_closed() -> None:
    """Debian's homes have mode 700; so has the kit's cache. Mapped users can enter neither."""
    script = """if True:
        import tarfile
        from pathlib import Path
        from kit.arms.image.mmdebstrap import run_mmdebstrap
        place = Path(".cache/kit").absolute(); place.mkdir(0o700, parents=True)
        options = ["--variant=extract", "--format=tar", "--include=busybox-static"]
        run_mmdebstrap([*options, "bookworm", place / "it.tar"], place)
        print([path.name for path in place.iterdir()], "./bin/busybox" in tarfile.open(place / "it.tar").getnames())
    """
    with made_up_user() as account:
        done = account.run(account.python, "-c", script)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "['it.tar'] True\n"


def test_without_mapped_users_mmdebstrap_is_not_blamed_on_the_packages(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with ordinary_user(), pytest.raises(MachineError) as caught:
        run_mmdebstrap(["--variant=extract", "bookworm", tmp_path / "x.tar"], tmp_path)
    assert caught.value.message == (
        "mmdebstrap can't work without root: nobody has no range of numbers in /etc/subuid and /etc/subgid"
    )
    assert re.fullmatch(r"run sudo usermod --add-subuids (\d+-\d+) --add-subgids \1 nobody", caught.value.hint)
