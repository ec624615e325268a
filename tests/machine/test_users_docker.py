"""Beside the user's Docker, running or stopped: what the kit's daemons may not change on a machine."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.core.exit_code import NOT_RUN
from kit.host.command import which
from tests import machine_state
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]

#: An arm of each daemon that the kit starts, and of each way to enter one.
ARMS = (
    "bare", "layer:overlay2", "layer:vfs", "layer:overlay2+userns=remap", "layer:overlay2+userns=rootless",
    "layer:podman/overlay", "bind:podman/overlay+userns=rootless", "layer:containerd/overlayfs", "build:overlay2",
    "build:buildah/overlay", "layer:docker/overlay2/docker/vfs", "union:overlay",
)  # fmt: skip
SESSION = ("--rounds", "1", "--no-rerun", "--wait", "--json", "-")
#: Directories in which daemons would leave something. A new machine has them empty.
EMPTY = ("/run", "/etc/docker", "/etc/cni", "/dev/shm")
#: What other tests change meanwhile, whatever this session does.
OTHERS = ("file in /tmp", "file in /var/tmp", "file in /sys/fs/cgroup", "file in /dev", "loop device")


@dataclass(frozen=True)
class UsersMachine:
    """A network and mounts like those of a new machine. ``holder``: the process whose namespaces these are."""

    holder: int
    socket: Path

    def words(self, *argv: str | Path) -> list[str]:
        enter = ["nsenter", f"--target={self.holder}", "--net", "--mount", f"--wd={Path.cwd()}", "--"]
        return [*enter, *map(str, argv)]

    def run(self, *argv: str | Path, expected: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            self.words(*argv), env={**os.environ, "DOCKER_HOST": f"unix://{self.socket}"}, text=True,
            capture_output=True, timeout=1000, check=False,
        )  # fmt: skip
        assert done.returncode in expected, f"{argv}: {done.stdout[-3000:]} {done.stderr[-3000:]}"
        return done.stdout

    def kit(self, *words: str | Path) -> str:
        return self.run(sys.executable, "-m", "kit", *words, expected=(0, NOT_RUN))

    def state(self) -> dict[str, list[str]]:
        lines: dict[str, list[str]] = json.loads(self.run(sys.executable, machine_state.__file__))
        return {name: values for name, values in lines.items() if name not in OTHERS}

    def answer(self, port: int) -> str:
        """Return what the user's container serves on a published port."""
        program = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode())"
        return self.run(sys.executable, "-c", program, f"http://127.0.0.1:{port}/srv.txt").strip()


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a short path: a socket's has 107 bytes at most, and dockerd makes some deep below."""
    with tempfile.TemporaryDirectory(prefix="users-") as name:
        yield Path(name)


@pytest.fixture
def users_machine(short: Path) -> Iterator[UsersMachine]:
    private = ["unshare", "--net", "--mount", "--propagation", "private", "--", "setpriv", "--pdeathsig", "KILL", "--"]
    with subprocess.Popen([*private, "sh", "-c", "echo ready; exec sleep infinity"], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout and holder.stdout.readline()
            machine = UsersMachine(holder.pid, short / "sock")
            machine.run("ip", "link", "set", "lo", "up")
            for directory in EMPTY:
                Path(directory).mkdir(exist_ok=True)
                machine.run(
                    "mount",
                    "-t",
                    "tmpfs",
                    "-o",
                    "mode=1777" if directory == "/dev/shm" else "mode=755",
                    "new",
                    directory,
                )
            yield machine
        finally:
            holder.kill()


@contextmanager
def docker_running(machine: UsersMachine, directory: Path) -> Iterator[None]:
    """Run dockerd as a user's machine does: with its bridge and its rules."""
    (directory / "daemon.json").write_text("{}")
    words = machine.words(
        "dockerd", f"--data-root={directory / 'data'}", f"--exec-root={directory / 'exec'}",
        f"--host=unix://{machine.socket}", f"--pidfile={directory / 'pid'}",
        f"--config-file={directory / 'daemon.json'}",
    )  # fmt: skip
    with (directory / "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as daemon:
        try:
            wait_until(machine.socket.exists, process=daemon)
            yield
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(60)


def test_nothing_changes_beside_a_running_docker(
    users_machine: UsersMachine, tiny: Path, short: Path, kit_home: Path
) -> None:
    """The user's bridge, rules, containers, volumes and networks are the same after a session of each kind of daemon,
    and published ports still answer."""
    docker = which("docker") or "docker"
    serve = ["users:1", "sh", "-c", "echo the user > /srv.txt; exec httpd -f -h / -p 80"]
    with docker_running(users_machine, short):
        users_machine.run(docker, "import", tiny, "users:1")
        users_machine.run(docker, "network", "create", "users-network")
        users_machine.run(docker, "volume", "create", "users-volume")
        options = ["--volume", "users-volume:/v", "--network", "users-network"]
        users_machine.run(docker, "run", "--detach", "--publish", "8080:80", *serve)
        users_machine.run(docker, "run", "--detach", "--publish", "8081:80", *options, *serve)
        wait_until(lambda: users_machine.answer(8081) == "the user")
        before = users_machine.state()
        assert any(line.startswith("docker0 ") for line in before["link"])
        arms = "layer:overlay2,layer:podman/overlay,layer:containerd/overlayfs"
        users_machine.kit("compare", *SESSION, "--image", tiny, "--arms", arms, "--", "true")
        assert machine_state.difference(before, users_machine.state()) == []
        assert [users_machine.answer(port) for port in (8080, 8081)] == ["the user", "the user"]


@pytest.mark.maps_users
def test_nothing_changes_without_a_docker(users_machine: UsersMachine, tiny: Path, kit_home: Path) -> None:
    """A session of every engine leaves a new machine as it was: settings such as ip_forward, /etc and /run too."""
    before = users_machine.state()
    session = users_machine.kit("compare", *SESSION, "--image", tiny, "--arms", ",".join(ARMS), "--", "true")
    document = json.loads(session)
    not_run = {row["arm"]: row["reason"] for row in document["session"]["not_run"]}
    assert {sample["arm"] for sample in document["samples"]} | not_run.keys() >= set(ARMS)
    assert "layer:overlay2" not in not_run and "layer:containerd/overlayfs" not in not_run, not_run
    assert machine_state.difference(before, users_machine.state()) == []
