"""What a user reaches of a session with rootless engines: one that every machine has, and the session's own."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.core.paths import find_paths
from kit.model.arm import parse_arm
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from kit.session.measure.context import MachineLease
from kit.session.setup.provision import Provision
from tests.engine_suite import sh, some_inputs, spec_of

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured, pytest.mark.maps_users]

#: The user ``nobody``, which other programs of a machine may run as.
NOBODY = 65534
ARMS = ("layer:overlay2+userns=rootless", "bind:podman/overlay+userns=rootless")
#: Make a file in each directory that the user may write to: print these.
MARK = 'for directory; do touch "$directory/marker" 2>/dev/null && echo "$directory"; done; true'
#: $1 is a file of root's: put links to it in the place of sockets and logs in the directories after it.
LEAD_AWAY = """
marker=$1; shift
for directory; do
    for path in "$directory/s" "$directory/log"; do
        [ ! -e "$path" ] || { rm "$path" && ln -s "$marker" "$path" && echo "$path"; }
    done
done
"""


@pytest.fixture(scope="module")
def lease() -> Iterator[MachineLease]:
    with held_machine(f"session-user-{os.getpid()}", find_paths(), True, Quiet()) as held:
        yield held


@pytest.fixture(scope="module")
def provision(lease: MachineLease, tiny: Path) -> Iterator[Provision]:
    with Provision(spec_of(lease, tiny, some_inputs(lease))) as made:
        yield made


def run_as(user: int, script: str, *words: Path) -> list[str]:
    enter = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
    done = subprocess.run([*enter, "sh", "-c", script, "sh", *words], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def directories(*tops: Path) -> list[Path]:
    return [Path(where) for top in tops for where, _, _ in os.walk(top)]


def of_root_below_others(*tops: Path) -> list[Path]:
    """What root has in a directory of another user's, who could put anything else in its place."""
    found = []
    for directory in directories(*tops):
        owner = directory.stat().st_uid
        found += [path for path in directory.iterdir() if owner and path.lstat().st_uid == 0 and not path.is_mount()]
    return found


@pytest.mark.promise(
    "another user", "No process of `nobody` reaches a rootless arm, and no process of such an arm leads root anywhere."
)
@pytest.mark.parametrize("text", ARMS)
def test_nobody_reaches_nothing_and_the_sessions_user_nothing_of_roots(
    provision: Provision, lease: MachineLease, text: str, tmp_path: Path
) -> None:
    """Each tries to leave a harmless marker. The session's own user, as whom a workload runs that breaks out of its
    container, then exchanges what it can for links to a file of root's."""
    arm, session = parse_arm(text), lease.setting.run
    if blocked := provision.ready(arm):
        pytest.skip(f"not run: {blocked.reason}; fix: {blocked.fix}")
    with provision.sandbox(arm) as sandbox:
        user = int(sh(sandbox, "cat /proc/self/uid_map")[1].split()[1])
        assert sandbox.probe.pid and user not in (0, NOBODY)
        engines = sandbox.backing.path
        assert run_as(NOBODY, MARK, *directories(session, engines)) == []
        assert of_root_below_others(session) == []
        reached = [Path(name) for name in run_as(user, MARK, *directories(session))]
        assert reached and all(path.stat().st_uid == user for path in reached)
        for path in reached:
            (path / "marker").unlink()
        marker = tmp_path / "marker"
        marker.write_text("root's\n")
        marker.chmod(0o600)
        assert [name for name in run_as(user, LEAD_AWAY, marker, *reached) if name.endswith("/s")]
        sandbox.engine()  # root gives the arm the daemon's socket
        before = marker.stat()
        assert (stat.S_IMODE(before.st_mode), before.st_uid) == (0o600, 0)
    assert marker.read_text() == "root's\n" and marker.stat().st_ctime_ns == before.st_ctime_ns
