"""What README promises, on a stock Debian with systemd, Docker and an ordinary user who has sudo.

All tests of a release share one machine, and run in this order. ``make users-machine`` runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.users_machine.guest import COPY, MEDIA, SUDO, TINY, Guest
from tests.users_machine.media import SOURCES
from tests.users_machine.root import USER
from tests.users_machine.tutorial import follow_tutorial, run_pages

_CACHE = "KIT_TEST_USERS_MACHINE"
pytestmark = [
    pytest.mark.machine,
    pytest.mark.unmeasured,
    pytest.mark.skipif(_CACHE not in os.environ, reason=f"needs {_CACHE}, a directory: make users-machine"),
]
ARMS = "bare,bind:overlay2,volume:overlay2,layer:overlay2,layer:btrfs,layer:fuse-overlayfs"
#: Name and release; "noexec": no program may run in /tmp, /var/tmp and /dev/shm.
MACHINES = {"trixie": ("trixie", False), "bookworm": ("bookworm", False), "trixie-noexec": ("trixie", True)}
_NIGHTLY = f"""
[[tasks]]
command = ["sh", "-c", "cp -r /bin copy && rm -r copy"]
image = "{MEDIA}/tiny.tar"
arms = ["bare", "layer:overlay2"]
rounds = 2
"""


@pytest.fixture(scope="module", params=MACHINES)
def guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    release, noexec = MACHINES[request.param]
    cache = Path(os.environ[_CACHE]).absolute()
    cache.mkdir(parents=True, exist_ok=True)
    machine = Guest(release, cache, tmp_path_factory.mktemp("guest"), noexec)
    try:
        yield machine
    finally:
        machine.close()


@pytest.fixture(autouse=True)
def unchanged(guest: Guest) -> Iterator[None]:
    yield
    assert guest.changes() == []
    assert guest.page() == "hello"


def test_the_page_of_doctor_is_complete(guest: Guest) -> None:
    page = guest.run(f"{SUDO} doctor", timeout=1800).text
    for section in ("tool", "machine", "filesystem", "driver", "placement", "engine", "guest"):
        assert f"\n{section}\n" in f"\n{page}"
    works = [line.split()[1] for line in page.splitlines() if line.startswith("  works ")]
    for name in ("ext4", "xfs", "btrfs", "docker/overlay2", "docker/btrfs", "docker/fuse-overlayfs", "bare", "system"):
        assert name in works
    assert "Permission denied" not in page


def test_root_compares_the_arms(guest: Guest) -> None:
    text = guest.must("debian", f"{SUDO} compare {TINY} --arms {ARMS} --rounds 2 {COPY}")
    assert "Not run" not in text and "Failed" not in text


def test_root_compares_smoke(guest: Guest) -> None:
    options = f"--param source={MEDIA}/{SOURCES} --arms {ARMS} --rounds 1 --interleave 0.5s --no-rerun"
    text = guest.must("debian", f"{SUDO} compare smoke {options}", timeout=1800)
    assert "Not run" not in text and "Failed" not in text


def test_the_running_docker(guest: Guest) -> None:
    text = guest.must("debian", f"{SUDO} compare {TINY} --engine system --rounds 1 {COPY}")
    assert "Not run" not in text and "Failed" not in text


def test_the_ordinary_user_runs_podman(guest: Guest) -> None:
    arms = "--arms layer:podman/overlay@dir --baseline host@dir"
    text = guest.must("debian", f"kit compare {TINY} {arms} --rounds 1 -- true")
    assert "Not run" not in text and "Failed" not in text


def test_a_killed_session_is_cleaned(guest: Guest) -> None:
    _begin(guest)
    guest.must("root", "pkill -KILL -f 'bin/[k]it compare'; sleep 1")
    guest.must("debian", f"{SUDO} clean")
    assert "running" not in guest.must("debian", f"{SUDO} sessions")


def test_a_nightly_job_by_the_timer(guest: Guest) -> None:
    guest.must("root", f"""
        ln -s /home/debian/.local/bin/kit /usr/local/bin/kit
        echo KIT_NOTHING=1 >/etc/default/kit-nightly
        mkdir /etc/kit; cat >/etc/kit/nightly.toml <<'END'{_NIGHTLY}END
        cp {MEDIA}/kit/examples/jobs/kit-nightly.service {MEDIA}/kit/examples/jobs/kit-nightly.timer /etc/systemd/system
        systemctl daemon-reload
        systemctl enable --now kit-nightly.timer
        date -s 'tomorrow 02:16:55'
    """)  # fmt: skip
    done = guest.run("""
        until [ "$(systemctl show -P ExecMainExitTimestampMonotonic kit-nightly)" != 0 ]; do sleep 20; done
        journalctl --no-pager -u kit-nightly
        cat /var/lib/kit-nightly/latest/summary.md
        stat -c %a /etc/default/kit-nightly | grep -x 600
        systemctl show -P ExecMainStatus kit-nightly | grep -x 0
    """, "root", 900)  # fmt: skip
    guest.must("root", """
        systemctl disable --now kit-nightly.timer
        rm -r /etc/kit /etc/default/kit-nightly /etc/systemd/system/kit-nightly.*
        rm -r /usr/local/bin/kit /var/lib/kit-nightly
        systemctl daemon-reload
    """)  # fmt: skip
    assert done.code == 0


def test_a_power_cut_in_mid_session(guest: Guest) -> None:
    _begin(guest)
    guest.cut_power()
    guest.must("debian", f"{SUDO} clean")
    state = "/root/.local/state/storage-driver-test-kit"
    assert guest.must("root", f"find {state}/journal {state}/loops -type f") == ""


def test_the_tutorial(guest: Guest) -> None:
    follow_tutorial(guest)


@pytest.mark.parametrize("user", ["root", USER])
def test_the_pages(guest: Guest, user: str) -> None:
    assert run_pages(guest, user) == []


def _begin(guest: Guest) -> None:
    """Start a session, and wait until an arm runs."""
    words = f"{SUDO} compare {TINY} --arms layer:overlay2,bare@btrfs --rounds 1 -- sleep 4321"
    # A login of its own: what a login leaves in the background ends with it.
    login = f"systemd-run --unit=session --collect --uid={USER} --property=PAMName=login bash --login -c"
    guest.must("root", f"""
        {login} '{words} >~/session.log 2>&1'
        for i in $(seq 300); do pgrep -f '^sleep 4321$' && exit; sleep 1; done; cat /home/{USER}/session.log; exit 1
    """)  # fmt: skip
