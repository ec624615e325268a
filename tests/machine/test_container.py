"""The kit in a privileged container of a real Docker, by the command that docs/how-to/run-in-a-container.md names.

The first tests need no image of the kit: a container of the tiny image gets this machine's programs and this kit. With
KIT_TEST_IMAGE=1 examples/docker/Dockerfile is built of Debian's packages and run, which takes minutes of CPU."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.arms.engines.docker_server import Dockerd
from kit.arms.engines.supervisor import DaemonDirs
from kit.core.paths import apart, find_paths
from kit.host.cgroup.cgroup import mode
from kit.report.text.progress import Quiet
from kit.session.doctor import assumptions
from kit.session.execute.session_loop import held_machine
from tests.command_line import in_new_process
from tests.leftovers import left_on_machine

ROOT = Path(__file__).parents[2]
DOCKER = shutil.which("docker")
pytestmark = [
    pytest.mark.machine,
    pytest.mark.unmeasured(clean=True),
    pytest.mark.skipif(DOCKER is None, reason="needs docker: apt-get install docker.io"),
]
#: A session that writes one file in each arm.
COMPARE = ("compare", "--image", "/tiny.tar", "--arms", "bare,layer:overlay2", "--rounds", "1", "--size", "1G",
           "--no-rerun", "--no-control", "--wait", "--json", "-", "--", "sh", "-c", "echo x > y")  # fmt: skip
Done = subprocess.CompletedProcess[str]
#: Runs runc. Docker asks for all capabilities of a privileged container, and runc refuses one that the daemon itself
#: lacks: a sandbox may lack CAP_SYS_RESOURCE, and daemons of the kit load no modules. The numbers: capability.h.
RUNTIME = f"""#!{sys.executable}
import json, os, re, sys
bound = int(re.search(r"CapBnd:\\s+(\\w+)", open("/proc/self/status").read())[1], 16)
lacking = [name for name, bit in (("CAP_SYS_MODULE", 16), ("CAP_SYS_RESOURCE", 24)) if not bound >> bit & 1]
if "create" in sys.argv and lacking:
    path = sys.argv[sys.argv.index("--bundle") + 1] + "/config.json"
    config = json.load(open(path))
    for names in config["process"]["capabilities"].values():
        names[:] = [name for name in names if name not in lacking]
    json.dump(config, open(path, "w"))
os.execvp("runc", ["runc", *sys.argv[1:]])
"""


def documented() -> list[str]:
    """Return the options of docker run that the page names."""
    text = (ROOT / "docs/how-to/run-in-a-container.md").read_text().replace("\\\n", " ")
    (found,) = re.findall(r"^ *docker run (.*) kit doctor$", text, re.M)
    return shlex.split(found)


def without(*options: str) -> list[str]:
    """Return them without these; an option and its value are one."""
    found = " ".join(documented())
    for option in options:
        assert option in found
        found = found.replace(option, "")
    return found.split()


class Outside:
    """A Docker in which the kit runs. ``tiny``: the root filesystem that its containers have at /tiny.tar."""

    def __init__(self, daemon: Dockerd, tiny: Path) -> None:
        self._daemon = daemon
        self._tiny = tiny

    def docker(self, *words: str | Path, timeout: float = 300) -> Done:
        assert DOCKER
        line = [DOCKER, "--host", self._daemon.host, *map(str, words)]
        return subprocess.run(line, capture_output=True, text=True, timeout=timeout, check=False)

    def load(self, archive: Path) -> None:
        done = self.docker("load", "--input", archive)
        assert done.returncode == 0, done.stderr

    def run(self, options: list[str], *words: str, timeout: float = 300) -> Done:
        """Run ``docker run OPTIONS WORDS``. The network is the machine's, in which other workers see who holds it."""
        here = ["--runtime=able", "--network=host", f"--cgroup-parent={self._daemon.home.container_cgroup}"]
        return self.docker("run", *options, *here, f"--volume={self._tiny}:/tiny.tar:ro", *words, timeout=timeout)

    def kit(self, options: list[str], *words: str) -> Done:
        """Run this kit by this machine's programs."""
        places = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives", sys.prefix, sys.base_prefix, ROOT]
        mounts = [f"--volume={place}:{place}:ro" for place in dict.fromkeys(map(str, places)) if Path(place).exists()]
        variables = {"PYTHONPATH": ROOT, "PATH": os.environ["PATH"], "HOME": "/", "KIT_HOME": "/var/lib/kit"}
        given = [f"--env={name}={value}" for name, value in variables.items()]
        start = ["kit-tiny", sys.executable]
        return self.run([*options, *mounts, *given, "--tmpfs=/run:exec,mode=755"], *start, *words)


@pytest.fixture(scope="module")
def outside(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """Its lock is another one than the machine's, which the kit in the container takes."""
    directory, paths = tmp_path_factory.mktemp("outside"), apart(find_paths())
    paths.lock.mkdir(parents=True, exist_ok=True)
    saved = in_new_process("image", "save", tiny, directory / "tiny.tar", "--tag", "kit-tiny", "--wait")
    assert saved.returncode == 0, saved.stderr
    with held_machine(f"outside-{os.getpid()}", paths, True, Quiet()) as lease:
        dirs = DaemonDirs(directory / "data", lease.setting.run / "d", f"{lease.setting.cgroup}/d")
        (directory / "runtime").write_text(RUNTIME)
        (directory / "runtime").chmod(0o755)
        daemon = Dockerd("overlay2", dirs, words=[f"--add-runtime=able={directory / 'runtime'}"])
        try:
            daemon.start()
            found = Outside(daemon, tiny)
            found.load(directory / "tiny.tar")
            yield found
        finally:
            daemon.stop()
    assert left_on_machine() == []


def check(done: Done) -> None:
    """Both arms ran."""
    assert done.returncode == 0, done.stdout + done.stderr
    samples = json.loads(done.stdout)["samples"]
    assert {(row["arm"], row["status"]) for row in samples} == {("bare", "ok"), ("layer:overlay2", "ok")}


def test_the_documented_command_measures(outside: Outside) -> None:
    check(outside.kit(documented(), "-m", "kit", *COMPARE))


@pytest.mark.parametrize(
    ("left_out", "says", "fix"),
    [
        (["--privileged"], "no private mount namespace: Operation not permitted", "--privileged …"),
        (
            ["--volume /sys/fs/cgroup:/sys/fs/cgroup"],
            "/sys/fs/cgroup shows control groups outside of the kit's cgroup namespace",
            "--cgroupns=host --volume /sys/fs/cgroup:/sys/fs/cgroup …",
        ),
    ],
)
def test_what_is_missing_is_named_in_one_line_with_its_fix(
    outside: Outside, left_out: list[str], says: str, fix: str
) -> None:
    if "cgroup" in says and mode() == "v2":
        pytest.skip("with cgroup v2 Docker itself mounts the hierarchy of a privileged container")
    done = outside.kit(without(*left_out), "-m", "kit", "image", "build", "/tiny.tar", "--wait")
    assert done.returncode != 0
    *_, error, advice = done.stderr.strip().splitlines()
    error = re.sub(r"(/sys/fs/cgroup)/\w+", r"\1", error)  # the first of this machine's hierarchies
    assert error == f"kit: {says}" and advice.endswith(f"; in a container: docker run {fix}")


_WITHHELD = """
from kit.core.paths import find_paths
from kit.session.doctor import assumptions
withheld = (item.name for item in assumptions(find_paths(), "container") if not item.works)
print(find_paths().lock, *withheld, sep="\\n")
"""


def test_the_lock_is_the_machines_and_doctor_names_what_a_session_does_without(outside: Outside) -> None:
    """Some machines let not even root look at the first process: then the lock is the container's."""
    here = {item.name for item in assumptions(find_paths(), "container") if not item.works}
    first = Path("/proc/1/root/run")
    lock, *names = outside.kit(documented(), "-c", _WITHHELD).stdout.splitlines()
    assert lock == str(first if os.access(first, os.R_OK) else "/run") and set(names) == here
    lock, *names = outside.kit(without("--pid=host", "--volume kit:/var/lib/kit"), "-c", _WITHHELD).stdout.splitlines()
    assert lock == "/run" and set(names) == here | {"processes", "disk"}


def build(outside: Outside, context: Path, *words: str) -> None:
    """Build the documented image. The base, which no registry here has, was loaded under its name."""
    file = ROOT / "examples/docker/Dockerfile"
    done = outside.docker("build", "--network=host", "--tag=kit", *words, f"--file={file}", context, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


def load_base(outside: Outside, archive: Path) -> None:
    done = outside.docker("import", archive, "debian:bookworm")
    assert done.returncode == 0, done.stderr


#: Programs of Debian that the steps of the Dockerfile call, for a base without packages.
PROGRAMS = {
    "usr/bin/apt-get": 'echo "$@" >> /apt-get.log; mkdir -p /var/lib/apt/lists',
    "usr/bin/python3": 'for last; do :; done; mkdir -p "$last/bin"; cp /usr/bin/pip "$last/bin"',
    "usr/bin/pip": 'for last; do :; done; cp "${last%%[[]*}/kit" /opt/kit/bin',
}


def test_docker_runs_each_step_of_the_documented_image(outside: Outside, tiny: Path, tmp_path: Path) -> None:
    """A kit that prints its words stands in for the checkout, shell scripts for apt-get, python3 and pip."""
    shutil.copy(tiny, tmp_path / "base.tar")
    with tarfile.open(tmp_path / "base.tar", "a") as base:
        for name, text in PROGRAMS.items():
            script = f"#!/bin/sh\n{text}\n".encode()
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mode = len(script), 0o755
            base.addfile(member, io.BytesIO(script))
        for name in ("usr/local/bin", "opt"):
            directory = tarfile.TarInfo(f"./{name}")
            directory.type, directory.mode = tarfile.DIRTYPE, 0o755
            base.addfile(directory)
    load_base(outside, tmp_path / "base.tar")
    (tmp_path / "context").mkdir()
    program = '#!/bin/sh\necho "$KIT_HOME $DM_DISABLE_UDEV $*"; grep -q podman /apt-get.log\n'
    (tmp_path / "context/kit").write_text(program)
    (tmp_path / "context/kit").chmod(0o755)
    build(outside, tmp_path / "context")
    done = outside.run(["--rm"], "kit", "doctor")
    assert (done.returncode, done.stdout) == (0, "/var/lib/kit 1 doctor\n"), done.stderr


LACKING = "" if os.environ.get("KIT_TEST_IMAGE") else "KIT_TEST_IMAGE is not set: the kit's image takes minutes of CPU"


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_the_kits_own_image_measures(outside: Outside, tmp_path: Path) -> None:
    base = tmp_path / "base.tar"
    subprocess.run(["mmdebstrap", "--variant=minbase", "bookworm", base], check=True, timeout=600)
    load_base(outside, base)
    context = tmp_path / "context"
    for name in ("kit", "docs", "scenarios", "images"):
        shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_bill.py", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, context)
    given = [f"--build-arg=PIP_INDEX_URL={url}"] if (url := os.environ.get("PIP_INDEX_URL")) else []
    if authority := os.environ.get("PIP_CERT"):
        shutil.copy(authority, context / "ca.pem")
        given.append("--build-arg=PIP_CERT=/src/ca.pem")
    build(outside, context, *given)
    said = outside.run(documented(), "kit", "--version")
    assert "/opt/kit/" in said.stdout, said.stdout + said.stderr
    check(outside.run(documented(), "kit", *COMPARE))
    found = json.loads(outside.run(documented(), "kit", "doctor", "--wait", "--json", timeout=600).stdout)["diagnoses"]
    works = {(item["kind"], item["name"]) for item in found if item["works"]}
    assert {("tool", "dockerd"), ("filesystem", "ext4"), ("driver", "docker/overlay2"), ("placement", "bare")} <= works
    worker = outside.run(documented(), "kit", "fleet", "worker", "--help")
    assert "Add this machine to a fleet" in worker.stdout
