"""A network filesystem: server and client in one guest, whose kernel has both, over a network as slow as was asked."""

import json
from pathlib import Path

import pytest

from tests.command_line import Kit
from tests.leftovers import left_on_machine

FILES = 40
SCRIPT = (
    "while read -r source path kind rest; do echo $path $kind; done < /proc/mounts; "
    f"i=0; while [ $i -lt {FILES} ]; do echo $i > f$i; i=$((i+1)); done; cat f* > all; rm f*"
)
BARE = ("bare@nfs", "bare@nfs-1ms")
ARMS = (*BARE, "layer:podman/vfs@nfs")
#: Its mount options tell the workload where it runs, which ends the server there.
MORTAL = '[mortal]\ntype = "nfs"\nserver = "ext4"\nmount = ["noatime"]\n'
KILL = (
    "if grep -q '/build nfs4 .*noatime' /proc/mounts; then for process in /proc/[0-9]*; do "
    "if grep -q '[m]ortal-disk' $process/cmdline; then kill -KILL ${process#/proc/}; fi; done; fi; "
)


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_server_and_client_in_one_guest(kit: Kit, uml: None, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "mortal.toml").write_text(MORTAL)
    arms = ",".join((*ARMS, "bare@mortal", "layer:overlay2@nfs"))
    done = kit(
        "compare", "--guest", "uml", "--image", tiny, "--arms", arms, "--rounds", "1", "--cache", "cold",
        "--no-rerun", "--fs-file", tmp_path / "mortal.toml", "--size", "2G", "--json", tmp_path / "out.json",
        "--", "sh", "-c", KILL + SCRIPT, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr + done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["session"]["status"] == "done"  # all that was made is gone, or the session had failed
    facts, rows = found["session"]["facts"], {row["arm"]: row for row in found["samples"]}
    assert set(rows) == {*ARMS, "bare@mortal"} and all(rows[arm]["status"] == "ok" for arm in ARMS)
    assert "a server of the kit's own, its disk ext4" in facts["filesystem nfs"]
    assert "vers=4.1" in facts["filesystem nfs"]
    assert ", 1 ms each way" in facts["filesystem nfs-1ms"]
    for arm in BARE:
        assert "/build nfs4" in Path(rows[arm]["log"]).read_text().splitlines()
        assert rows[arm]["write_bytes"] + rows[arm]["flush_bytes"] > 0  # on the server's disk
    # A file is opened and closed by one call to the server each, at the least, and none is back before 2 ms.
    assert rows["bare@nfs-1ms"]["real"] > FILES * 2 * 0.002
    (left_out,) = found["session"]["not_run"]
    assert left_out["arm"] == "layer:overlay2@nfs" and left_out["fix"].startswith("overlay writes to no NFS"), left_out
    dead = "the NFS server of mortal died (killed by signal 9): see session.log, of a guest guest.log"
    assert rows["bare@mortal"]["status"] == "failed" and dead in rows["bare@mortal"]["error"]
    assert done.stderr.count(dead) == 1  # the answer cuts lines at 100 columns
    assert "Failed: bare@mortal, round 1: " in done.stdout
    log = Path(rows["bare@mortal"]["log"]).with_name("guest.log").read_text()
    assert "the NFS server of mortal, killed by signal 9; log:" in log
    assert left_on_machine() == []
