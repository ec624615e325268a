"""Each assumption about the machine, broken on purpose: in namespaces of the test's own, by the real kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import kit
from kit.core.paths import find_paths
from kit.host.assumptions import AS_ROOT, ASSUMPTIONS, SESSION, Unmet
from tests.ordinary_user import NOBODY, ordinary_user

#: $PROBE: the words of an answer, or the reason and the fix. It imports before it becomes another user.
PROBE = """
import json, os, sys
from kit.core.paths import find_paths
from kit.host.assumptions import ASSUMPTIONS, Unmet
kind, name, user = sys.argv[1:]
paths = find_paths()
(assumption,) = [item for item in ASSUMPTIONS if (item.kind, item.name) == (kind, name)]
if user != "0":
    os.setresuid(int(user), int(user), int(user))
answer = assumption.probe(paths)
print(json.dumps([answer.reason, answer.fix] if isinstance(answer, Unmet) else answer))
"""
#: A seccomp filter by which bpf(2) does not exist, as with CONFIG_BPF_SYSCALL=n (linux/seccomp.h, linux/filter.h).
NO_BPF = """
import ctypes, platform, struct
number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
load, jump, refuse, allow = (0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7FFF0000)
code = b"".join(struct.pack("HBBI", *line) for line in (load, jump, refuse, allow))
filters = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", 4, ctypes.addressof(filters))
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0
assert ctypes.CDLL(None).prctl(22, 2, program, 0, 0) == 0
"""
PURE_V2 = "umount -R /sys/fs/cgroup || umount -l /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup"
EMPTY_DEV = "mount -t tmpfs dev /dev; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9"
SYSCTL = "mount -t tmpfs kit-test /proc/sys/kernel; echo {} >/proc/sys/kernel/{}"

#: Ubuntu's setting, and its profile of Podman.
APPARMOR = "apparmor_restrict_unprivileged_userns"
PROFILE = (
    "mkdir etc; cp -a /etc/passwd /etc/group etc; mkdir etc/apparmor.d; "
    'echo "profile podman $(readlink -f "$(command -v podman)") { userns, }" >etc/apparmor.d/podman; '
    "chmod -R a+rX etc; mount --bind etc /etc"
)


@dataclass(frozen=True)
class Break:
    """``words``: a shell's, as root in mount and PID namespaces; $HOME is a directory of the test. ``reason``: a part
    of the answer; ``fix``: likewise."""

    name: str
    words: str
    reason: str
    fix: str = ""
    user: int = 0
    kind: str = "machine"
    program: str = PROBE


BREAKS = (
    Break("/proc", "mount -t proc -o subset=pid proc /proc", "/proc has no stat", "without subset=pid"),
    Break("/proc", "mount -t proc -o hidepid=2 proc /proc", "are hidden (hidepid=", "hidepid=0 /proc", NOBODY),
    Break("control groups", "umount -R /sys/fs/cgroup", "no cgroup hierarchy with CPU accounting", "mount cgroup2"),
    Break("control groups", f"{PURE_V2}; mount -o remount,bind,ro /sys/fs/cgroup", "read-only", "remount,rw"),
    Break(
        "controllers",
        f'{PURE_V2}; echo "cpu pids" >$HOME/few; mount --bind $HOME/few /sys/fs/cgroup/cgroup.controllers',
        "no controller memory", "cgroup_disable",
    ),
    Break("run directory", "mount -t tmpfs -o size=512k kit-test /run", "/run/kit has 0.5 MiB free", "df -h"),
    Break("results", "mkdir data; mount -t tmpfs -o size=512k,mode=700 t data", "data has 0.5 MiB", "KIT_HOME"),
    Break("results", "mkdir data; mount -t tmpfs -o nr_inodes=50,mode=700 t data", "inodes free", "KIT_HOME"),
    Break("journals", "mkdir state; mount -t tmpfs -o size=512k,mode=700 t state", "state has 0.5 MiB", "KIT_HOME"),
    Break("cache", "mkdir cache; mount -t tmpfs -o size=99m,mode=700 t cache", "99.0 MiB free", "KIT_HOME"),
    Break(
        "programs", "mount -t tmpfs -o noexec,mode=755 t /mnt; export KIT_HOME=/mnt/kit",
        "is mounted noexec", "KIT_HOME", NOBODY,
    ),
    Break("temporary files", "mount -t tmpfs -o size=9m kit-test /tmp; export TMPDIR=/tmp", "/tmp has 9.0", "TMPDIR"),
    Break("open files", "ulimit -n 100", "may open 100 files", "ulimit -n 1024"),
    Break("limits", "ulimit -f 1000", "size of a file of each process", "ulimit -f unlimited"),
    Break("limits", "ulimit -t 600", "CPU time of each process is limited to 600", "ulimit -t"),
    Break("limits", "ulimit -v 8000000", "memory of each process", "ulimit -v"),
    Break("limits", "prlimit --pid $$ --nproc=100", "may have 100 processes", "ulimit -u", NOBODY),
    Break("names of files", "export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0", "as ascii", "LC_ALL=C.UTF-8"),
    Break("CPUs", 'taskset -p -c "$(nproc --all | tr -d 0-9 | sed s/^/0/)" $$ >/dev/null', "may use 1 of", "taskset"),
    Break(
        "swap",
        'printf "Filename Type Size Used Priority\\n/dev/vda2 partition 1048572 20480 -2\\n" >$HOME/swaps; '
        "mount --bind $HOME/swaps /proc/swaps",
        "/dev/vda2, 20 MiB in use: ", "swapoff",
    ),
    Break("loop devices", EMPTY_DEV, "/dev has no loop-control", "--volume /dev:/dev"),
    Break("FUSE", EMPTY_DEV, "/dev has no fuse", "--volume /dev:/dev"),
    Break("namespaces", "mount -t proc proc /proc; mount -t tmpfs t /proc/$$/ns", "no mnt and no pid", "CONFIG_NAM"),
    Break(
        "message queues",
        "grep -v mqueue /proc/filesystems >$HOME/few; mount --bind $HOME/few /proc/filesystems",
        "no mqueue", "CONFIG_POSIX_MQUEUE",
    ),
    Break("device programs", PURE_V2, "no device programs", "CONFIG_CGROUP_BPF", program=NO_BPF + PROBE),
    Break("seccomp", "mount -t tmpfs kit-test /proc/sys/kernel", "containers run without seccomp", "CONFIG_SECCOMP"),
    Break(
        "user namespaces",
        'echo 0 >/proc/sys/user/max_user_namespaces',
        "nobody may make a user namespace", "user.max_user_namespaces=",
    ),
    Break("user namespaces", SYSCTL.format(0, "unprivileged_userns_clone"), "only root may", "sysctl kernel.", NOBODY),
    Break("user namespaces", SYSCTL.format(1, APPARMOR), "podman has none", f"sysctl kernel.{APPARMOR}=0", NOBODY),
    Break("processes", "mount -t proc proc /proc", "the machine's are hidden", "--pid=host", kind="container"),
    Break("control groups", "exec unshare --cgroup", "a part of the machine's", "--cgroupns=host", kind="container"),
    Break(
        "disk",
        "mkdir -p up work low state; mount -t tmpfs kit-test up; mkdir up/u up/w; "
        "mount -t overlay -o lowerdir=low,upperdir=up/u,workdir=up/w kit-test state",
        "state lies on overlay", "--volume kit:", kind="container",
    ),
)  # fmt: skip
#: What an assumption says of another machine that is none the worse for it.
OTHERS = (
    Break("clock", "", "suspended for 100"),
    Break("user namespaces", f"{SYSCTL.format(1, APPARMOR)}; {PROFILE}", "can be made", "", NOBODY),
    Break(
        "security modules",
        "mount -t tmpfs t /sys/fs; mkdir /sys/fs/selinux; echo 1 >/sys/fs/selinux/enforce",
        "SELinux enforces",
    ),
    Break("init", "mount -t tmpfs t /run; mkdir -p /run/systemd/system", "systemd"),
    Break(
        "running daemons",
        "mount -t tmpfs t /run; \"$PYTHON\" -c 'from socket import *; socket(AF_UNIX).bind(\"/run/docker.sock\")'",
        "Docker (/run/docker.sock)",
    ),
)  # fmt: skip
#: No namespace has another clock, or another kernel's modules: see the tests below, and those of kernel_part.
ELSEWHERE = {"clock", "kernel modules"}
NEEDED = [known for known in ASSUMPTIONS if known.needed_by in (SESSION, AS_ROOT)]


def answer(broken: Break, home: Path, *before: str) -> str | list[str]:
    """Return what the assumption says there."""
    environment = {
        **os.environ, "KIT_HOME": str(home), "HOME": str(home), "PYTHON": sys.executable,
        "PYTHONPATH": str(Path(kit.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    enter = ["unshare", "--mount", "--pid", "--fork", *before, "sh", "-ec"]
    last = "" if broken.words.startswith("exec") else "; exec"
    script = f'{broken.words or ":"}{last} "$PYTHON" -c "$0" "$@"'
    words = [*enter, script, broken.program, broken.kind, broken.name, str(broken.user)]
    done = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: str | list[str] = json.loads(done.stdout)
    return found


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: f"{broken.name}: {broken.reason}")
def test_what_does_not_hold_is_named_with_its_fix(broken: Break, tmp_path: Path) -> None:
    user = ["unshare", "--user", "--map-root-user"] if "max_user" in broken.words else []
    found = answer(broken, tmp_path, *user)
    assert isinstance(found, list), found
    assert broken.reason in found[0] and broken.fix in found[1], found


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other.name)
def test_what_only_differs_is_said(other: Break, tmp_path: Path) -> None:
    asleep = ["unshare", "--time", "--boottime", "100000"] if other.name == "clock" else []
    found = answer(other, tmp_path, *asleep)
    assert isinstance(found, str) and other.reason in found, found


def test_each_assumption_is_broken_on_purpose() -> None:
    named = {(item.kind, item.name) for item in (*BREAKS, *OTHERS)}
    assert named | {("machine", name) for name in ELSEWHERE} == {(item.kind, item.name) for item in ASSUMPTIONS}
    assert len({(item.kind, item.name) for item in ASSUMPTIONS}) == len(ASSUMPTIONS)


def test_a_clock_that_was_never_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    (probe,) = [item.probe for item in ASSUMPTIONS if item.name == "clock"]
    found = probe(find_paths())
    assert isinstance(found, Unmet) and found.fix.endswith("set-ntp true")


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "broken",
    [
        item
        for item in BREAKS
        if item.user == 0 and (item.kind, item.name) in {(known.kind, known.name) for known in NEEDED}
    ],
    ids=lambda broken: f"{broken.name}: {broken.reason}",
)
def test_a_session_refuses_what_it_cannot_do_without(broken: Break, tmp_path: Path) -> None:
    """By the start that compare, nights and pytest share; before it makes anything."""
    session = (
        "from kit.core.errors import MachineError\nfrom kit.report.text.progress import Quiet\n"
        "from kit.session.execute.session_loop import held_machine\n"
        "try:\n    with held_machine('20260101-000000-aaaa', paths, False, Quiet()):\n        pass\n"
        "except MachineError as error:\n    print(json.dumps([error.message, error.hint]))\n"
    )
    start = PROBE[: PROBE.index("(assumption,)")] + session
    found = answer(Break(broken.name, broken.words, "", program=start), tmp_path)
    assert broken.reason in found[0] and broken.fix in found[1], found
    assert not (tmp_path / "state/journal").exists()


def test_a_daemon_that_only_root_sees_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(0)
    sockets = {"Docker": str(tmp_path / "missing"), "containerd": str(closed / "sock")}
    monkeypatch.setattr("kit.host.assumptions._SOCKETS", sockets)
    (assumption,) = (item for item in ASSUMPTIONS if item.name == "running daemons")
    paths = find_paths()
    with ordinary_user():
        answer = assumption.probe(paths)
    assert isinstance(answer, str) and answer.startswith("none; whether ") and answer.endswith("runs, only root sees")
