"""Every arm that this machine runs, through the one suite; a Blocker is the only reason to skip.

Which test meets which arm: tests/machine/arms.py.
"""

import json
import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from docker import DockerClient
from docker.errors import DockerException

from kit.arms.engines.account import FILES, known
from kit.arms.engines.installed import version_of
from kit.arms.engines.oci_runtime import RUNTIMES
from kit.arms.filesystem import BackingOptions
from kit.arms.image import ImageCache
from kit.core.errors import RunError
from kit.core.paths import find_paths
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import run, spawn, which
from kit.host.machine import read_host
from kit.model.arm import Arm, parse_arm
from kit.model.drivers import DRIVERS, Driver, version_number
from kit.model.fact import DRIVER_STATUS
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from kit.session.measure.context import MachineLease
from kit.session.setup.provision import Provision, ProvisionSpec
from tests.engine_suite import EngineSuite, names, rebuilt, sh, some_inputs, spec_of
from tests.leftovers import group_of_test, left_on_machine
from tests.machine.arms import arms_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured, pytest.mark.images("docker-26.1")]

BLOCKED = (
    "layer:aufs", "layer:devicemapper", "layer:zfs", "bare@zfs", "layer:containerd/devmapper", "layer:containerd/erofs",
    "layer:containerd/zfs", "layer:containerd/fuse-overlayfs", "volume:containerd/overlayfs",
    "layer:docker/overlay2/docker/overlay2", "layer:docker@26.1/overlay2/podman/vfs",
)  # fmt: skip


@pytest.fixture(scope="module")
def lease() -> Iterator[MachineLease]:
    with held_machine(f"engine-suite-{os.getpid()}", find_paths(), True, Quiet()) as held:
        yield held


@pytest.fixture(scope="module")
def provision(lease: MachineLease, tiny: Path) -> Iterator[Provision]:
    with Provision(spec_of(lease, tiny, some_inputs(lease))) as made:
        yield made
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "/run/kit/" in line]
    assert not [line for line in mounts if " nsfs " not in line]  # the network is the lease's
    assert not [line for line in left_on_machine() if line.startswith("loop")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "arm" in metafunc.fixturenames:
        arms = [pytest.param(text, marks=_marks(text)) for text in arms_of(metafunc.function.__name__)]
        metafunc.parametrize("arm", arms, indirect=True)


def _marks(text: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.maps_users] if "+userns=" in text else []


@pytest.fixture
def arm(request: pytest.FixtureRequest, provision: Provision) -> Arm:
    found = parse_arm(request.param)
    blocked = provision.ready(found)
    if blocked:
        pytest.skip(f"not run: {blocked.reason}; fix: {blocked.fix}")
    return found


class TestEveryArm(EngineSuite):
    pass


def test_copies_that_change_the_root_they_share_fail(provision: Provision) -> None:
    arm = parse_arm("bare")
    assert provision.ready(arm) is None
    with pytest.raises(RunError, match="the workload changes /etc/mine, which its copies share"):  # noqa: SIM117
        with provision.sandbox(arm, 2) as sandbox:
            timing, said = sh(sandbox, "mkdir /etc/mine")
            assert timing.exit_code == 1 and "mine" in said
    with provision.sandbox(arm) as sandbox:
        assert sh(sandbox, "ls /etc/mine")[0].exit_code != 0


@pytest.mark.maps_users
@pytest.mark.parametrize("text", ["bind:overlay2+userns=remap", "bind:overlay2+userns=rootless",
                                  "layer:podman/overlay+userns=auto", "bind:podman/vfs+userns=rootless"])  # fmt: skip
def test_root_in_a_user_namespace_is_another_user_outside(
    provision: Provision, lease: MachineLease, text: str, tmp_path: Path
) -> None:
    """It owns the sources that the kit puts into its tree, and reads the inputs."""
    arm = parse_arm(text)
    if blocked := provision.ready(arm):
        pytest.skip(f"not run: {blocked.reason}; fix: {blocked.fix}")
    EngineSuite().test_sources_are_put_into_the_tree(provision, arm, tmp_path)
    with provision.sandbox(arm) as sandbox:
        sandbox.unpack(tmp_path / "src.tar")
        assert sh(sandbox, "stat -c %u:%g . dir dir/a.sh")[1].split() == ["0:0"] * 3
        assert sh(sandbox, f"cat {sandbox.inputs}/given")[1] == "an input"
        outside = int(sh(sandbox, "cat /proc/self/uid_map")[1].split()[1])
        account = lease.setting.user.account()
        assert outside in account.numbers and pwd.getpwuid(account.number).pw_name == account.name


@pytest.mark.maps_users
def test_numbers_of_users_are_there_until_the_last_engine_ends(lease: MachineLease, tmp_path: Path) -> None:
    """Engines start and end in any order; each mounts a file on that of the one before."""
    if not Path("/etc/subuid").exists():
        pytest.skip("needs /etc/subuid")
    account, before = lease.setting.user.account(), [file.read_bytes() for file in FILES]
    first, second, third = (ExitStack() for _ in range(3))
    for stack in (first, second):
        stack.enter_context(known(account, tmp_path / str(id(stack)), lease.setting.journal))
    first.close()
    third.enter_context(known(account, tmp_path / "third", lease.setting.journal))
    second.close()
    for file, text in zip(FILES, before, strict=True):
        line = account.lines()[file].encode() + b"\n"
        assert file.read_bytes() == line + text.removeprefix(line)  # engines of other tests may run
    third.close()
    assert [file.read_bytes() for file in FILES] == before


@pytest.mark.parametrize("text", ["layer:overlay2+runtime=runsc", "layer:podman/overlay+runtime=runsc"])
def test_a_kernel_of_its_own_has_the_clock_of_the_machine(provision: Provision, text: str) -> None:
    """gVisor's begins with the container."""
    arm = parse_arm(text)
    if blocked := provision.ready(arm):
        pytest.skip(f"not run: {blocked.reason}; fix: {blocked.fix}")
    with provision.sandbox(arm) as sandbox:
        before = time.monotonic()
        timing, said = sh(sandbox, "cat /proc/version /proc/cmdline /proc/uptime; exec sleep 0.2")
        after = time.monotonic()
        assert sandbox.cgroup and all("-containers/" in str(path) for path in sandbox.cgroup.paths.values())
    assert os.uname().release not in said and "-gvisor" in said  # lifecycle's engine.py asks for the latter
    assert float(said.split()[-2]) < before
    assert before + 0.2 <= timing.ended <= after and 0.2 <= timing.real <= after - before


def test_cgroup_none_has_no_controller_on_its_processes(provision: Provision) -> None:
    """In the root group of every hierarchy, but for the group that its CPU is counted in."""

    def groups(text: str) -> list[str]:
        assert provision.ready(parse_arm(text)) is None
        with provision.sandbox(parse_arm(text)) as sandbox:
            lines = sh(sandbox, "cat /proc/self/cgroup")[1].splitlines()
            assert sandbox.cgroup is not None and sandbox.cgroup.cpu() is not None
        return lines

    ordinary, none = groups("runtime"), groups("runtime+cgroup=none")
    assert len(none) == len(ordinary)
    assert not any("containers" in line for line in none)
    counted = [line for line in none if not line.endswith(":/")]
    assert 1 <= len(counted) <= 2  # the v2 group, and that of cpuacct on v1
    assert all(line.split(":")[1] in ("", "cpuacct", "cpu,cpuacct") for line in counted)


@pytest.mark.parametrize("text", BLOCKED)
def test_what_this_kernel_lacks_is_reported_with_reason_and_fix(provision: Provision, text: str) -> None:
    blocked = provision.ready(parse_arm(text))
    if blocked is None:
        pytest.skip(f"this machine runs {text}")
    assert blocked.arm == text
    assert blocked.reason and blocked.fix


def test_a_driver_that_no_engine_has_is_reported_with_the_fix_of_its_record(
    provision: Provision, monkeypatch: pytest.MonkeyPatch
) -> None:
    for engine in ("docker", "podman", "containerd"):
        monkeypatch.setitem(DRIVERS, engine, (*DRIVERS[engine], Driver("shinyfs", "polish {arm}")))
        blocked = provision.ready(parse_arm(f"layer:{engine}/shinyfs"))
        assert blocked is not None and blocked.reason.startswith("shinyfs on ext4: ")
        assert blocked.fix == f"polish {'shinyfs' if engine == 'docker' else f'{engine}/shinyfs'}"


def test_an_engine_that_fails_beside_others_leaves_them_running(
    lease: MachineLease, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daemons of several engines on two filesystems, side by side; each filesystem is filled in the order of arms."""
    monkeypatch.setitem(DRIVERS, "docker", (*DRIVERS["docker"], Driver("shinyfs", "polish {arm}")))
    words = ("bare", "layer:shinyfs", "layer:overlay2", "bind:podman/overlay", "layer:containerd/native", "layer:btrfs")
    arms = [parse_arm(text) for text in (*words, "bind:btrfs", "runtime:overlay2")]
    setting = replace(
        lease.setting, run=lease.setting.run / "beside", cgroup=f"{lease.setting.cgroup}/beside", part="beside"
    )
    setting.run.mkdir()
    told: list[str] = []
    with Provision(replace(spec_of(lease, tiny), setting=setting)) as made:
        assert [item.arm for item in made.all_ready(arms, told.append).values()] == ["layer:shinyfs"]
        for filesystem in ("ext4", "btrfs"):
            mine = [f"setting up {arm}" for arm in arms if arm.filesystem == filesystem and arm.driver != "shinyfs"]
            assert [line for line in told if line in mine] == mine
        for arm in arms:
            if arm.driver != "shinyfs":
                with made.sandbox(arm) as sandbox:
                    assert sh(sandbox, "echo here")[1] == "here\n"
        found = [fact.of for fact in made.facts() if fact.kind is DRIVER_STATUS]
        assert len(found) == len(set(found)) == 4


@pytest.mark.parametrize(
    ("text", "ran"),
    [
        ("build:overlay2+cache=warm", False),
        ("build:overlay2+buildkit+cache=warm", False),
        ("build:buildah/overlay+cache=changed", True),
    ],
)
def test_a_rebuild_runs_only_what_a_change_concerns(provision: Provision, text: str, ran: bool) -> None:
    said, found = rebuilt(provision, text)
    assert said == ("it ran\nan input" if ran else "")
    assert ("build: run" in found) == ran
    assert {"build: lookup", "image size"} <= found.keys()


@pytest.mark.parametrize(("text", "most"), [("build:docker@26.1/overlay2+buildkit", 3_000_000),
                                            ("build:overlay2+buildkit+mount=cache", 900_000)])  # fmt: skip
def test_a_build_step_may_print_much(provision: Provision, text: str, most: int) -> None:
    """BuildKit cuts it after a mebibyte unless it is told not to, and with it the answer of the timer."""
    arm = parse_arm(text)
    assert provision.ready(arm) is None
    for _ in range(5):
        with provision.sandbox(arm) as sandbox:
            timing, said = sh(sandbox, f"head -c {most} /dev/zero | tr '\\0' x | fold -w 1000; exit 3")
        assert (timing.exit_code, said.count("x")) == (3, most)


def test_a_build_step_that_prints_too_much_for_an_old_buildkit_ends(provision: Provision) -> None:
    """Docker's before 23 would send the end of it for ever, once a mebibyte waits to be read."""
    if version_number(version_of(Path(shutil.which("dockerd") or ""))) >= (23,):
        pytest.skip("needs a Docker before 23")
    arm = parse_arm("build:overlay2+buildkit+mount=cache")
    assert provision.ready(arm) is None
    for _ in range(5):
        with provision.sandbox(arm) as sandbox, pytest.raises(RunError, match="its output was cut"):
            sh(sandbox, "head -c 3000000 /dev/zero | tr '\\0' x | fold -w 1000")


def test_inputs_are_there_read_only(provision: Provision) -> None:
    for text in ("bare", "runtime", "layer:overlay2"):
        with provision.sandbox(parse_arm(text)) as sandbox:
            assert sh(sandbox, f"cat {sandbox.inputs}/given")[1] == "an input"
            assert not sh(sandbox, f"echo x > {sandbox.inputs}/given")[0].ok


def test_seccomp_and_limits_are_what_the_arm_says(provision: Provision) -> None:
    look = "grep -w Seccomp /proc/self/status"
    for text, mode in (("bare", "0"), ("layer:overlay2", "2"), ("layer:overlay2+seccomp=unconfined", "0"),
                       ("layer:containerd/overlayfs", "2"),
                       ("layer:containerd/overlayfs+seccomp=unconfined", "0")):  # fmt: skip
        assert provision.ready(parse_arm(text)) is None
        with provision.sandbox(parse_arm(text)) as sandbox:
            assert sh(sandbox, look)[1].split()[-1] == mode, text


def test_runtime_and_bare_read_the_same_files(provision: Provision) -> None:
    seen = set()
    for text in ("bare", "runtime", "bind:overlay2"):
        with provision.sandbox(parse_arm(text)) as sandbox:
            seen.add((text, sh(sandbox, "stat -c '%d:%i' /bin/busybox")[1]))
    numbers = dict(seen)
    assert numbers["bare"] == numbers["runtime"] != numbers["bind:overlay2"]


@pytest.fixture
def running_docker(request: pytest.FixtureRequest, lease: MachineLease) -> Iterator[str]:
    """A Docker as a user may have it running, started here since none runs on a test machine: in a control group, as
    of a service, and with gVisor. Its parameter: further words."""
    words = getattr(request, "param", ())
    if words:
        request.getfixturevalue("mapped_users")
    directory = Path(tempfile.mkdtemp(prefix="kit-docker-"))  # not pytest's, through which no other user gets
    directory.chmod(0o711)
    address = f"unix://{directory}/s"
    gvisor = {"path": which("runsc"), "runtimeArgs": RUNTIMES["runsc"].words}
    (directory / "daemon.json").write_text(json.dumps({"runtimes": {"runsc": gvisor} if which("runsc") else {}}))
    group = Cgroup.named(group_of_test("docker")).create()
    with (directory / "log").open("wb") as log:
        process = spawn(
            ["dockerd", "--data-root", directory / "data", "--exec-root", directory / "e", "--host", address,
             "--pidfile", directory / "pid", "--bridge=none", "--iptables=false", "--storage-driver=overlay2",
             "--config-file", directory / "daemon.json", *words],
            output=log, cgroup_procs=group.procs,
        )  # fmt: skip

    def answers() -> bool:
        with suppress(DockerException):
            return bool(DockerClient(address).ping())
        return False

    wait_until(answers, process=process)
    yield address
    process.terminate()
    process.wait(30)
    group.remove()
    shutil.rmtree(directory)


def test_the_running_docker_is_used_and_left_as_it_was(
    lease: MachineLease, running_docker: str, tiny: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import docker

    monkeypatch.setenv("DOCKER_HOST", running_docker)
    image = ImageCache(lease.paths.cache).from_tarball(tiny)
    options = BackingOptions(images=tmp_path)
    suite = EngineSuite()
    with Provision(ProvisionSpec(lease.setting, read_host(), options, image, None)) as made:
        for text in ("bind:system/overlay2", "volume:system/overlay2", "layer:system/overlay2"):
            found = parse_arm(text)
            assert made.ready(found) is None
            suite.test_runs_commands_in_an_empty_tree(made, found)
            suite.test_every_run_starts_from_the_same_state(made, found)
            suite.test_cgroup_counts_what_left_the_tree(made, found)
        gvisor = parse_arm("layer:system/overlay2+runtime=runsc")
        if made.ready(gvisor) is None:  # installed, and for this kernel
            with made.sandbox(gvisor) as sandbox:
                assert not {"", "dockerd", "containerd", "containerd-shim"} & {*names(sandbox.cgroup)}
                assert os.uname().release not in sh(sandbox, "cat /proc/version")[1]
        for text in ("layer:system/btrfs", "runtime:system/overlay2", "tmpfs:system/overlay2+runtime=runsc"):
            blocked = made.ready(parse_arm(text))
            assert blocked is not None and blocked.fix
    # The disk of the daemon's layers, and another.
    elsewhere = BackingOptions(directory=Path("/dev/shm"))
    with Provision(ProvisionSpec(lease.setting, read_host(), elsewhere, image, None)) as made:
        for text in ("volume:system/overlay2", "layer:system/overlay2"):
            blocked = made.ready(parse_arm(text))
            assert blocked is not None and "its baseline on tmpfs" in blocked.reason and "--dir" in blocked.fix
        assert made.ready(parse_arm("bind:system/overlay2")) is None
    client = docker.DockerClient(base_url=running_docker)
    assert not client.images.list() and not client.containers.list(all=True) and not client.volumes.list()
    client.close()


@pytest.fixture
def mapped_users(lease: MachineLease, tmp_path: Path) -> Iterator[None]:
    """Users of a container are others outside: files of this mount namespace alone say so."""
    (tmp_path / "map").write_text("daemon:300000:65536\n")
    files = ("/etc/subuid", "/etc/subgid")
    for file in files:
        run(["mount", "--bind", tmp_path / "map", file])
    yield
    for file in files:
        run(["umount", file])


@pytest.mark.maps_users
@pytest.mark.parametrize("running_docker", [["--userns-remap=daemon"]], indirect=True)
def test_root_of_a_docker_that_maps_users_writes_to_its_tree(
    lease: MachineLease, running_docker: str, tiny: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", running_docker)
    image = ImageCache(lease.paths.cache).from_tarball(tiny)
    with Provision(ProvisionSpec(lease.setting, read_host(), BackingOptions(images=tmp_path), image, None)) as made:
        for text in ("bind:system/overlay2", "layer:system/overlay2"):
            assert made.ready(parse_arm(text)) is None
            with made.sandbox(parse_arm(text)) as sandbox:
                assert sh(sandbox, "cat /proc/self/uid_map")[1].split()[:2] == ["0", "300000"]
                assert sh(sandbox, "echo here > file && cat file")[1] == "here\n", text
        # Asked by another user than root it says so once, before any run.
        Path(running_docker.removeprefix("unix://")).chmod(0o666)
        os.seteuid(65534)
        try:
            found = made.all_ready([parse_arm(text) for text in ("bind:system/overlay2", "layer:system/overlay2")])
        finally:
            os.seteuid(0)
    assert list(map(str, found)) == ["bind:system/overlay2"], found
    (blocked,) = found.values()
    assert blocked.arm == "bind:system/overlay2" and "sudo" in blocked.fix
    assert blocked.reason == "the running Docker's root is user 300000 here, who may not write to your directory"
    assert not list(tmp_path.glob("kit-*"))


def test_a_container_is_removed_while_it_runs(lease: MachineLease, provision: Provision) -> None:
    """Podman fails to remove one that ends by itself in that moment: rarely, but then a run is lost. Only Docker tells
    how it ended."""
    import docker

    arm = parse_arm("layer:overlay2")
    assert provision.ready(arm) is None
    with provision.sandbox(arm) as sandbox:
        assert sandbox.engine()
        (socket,) = lease.setting.run.glob("*/docker")
        client = docker.DockerClient(base_url=f"unix://{socket}")
        events = client.events(filters={"event": "die"}, decode=True)
    died = next(iter(events))
    assert died["Actor"]["Attributes"]["exitCode"] == "137"  # by SIGKILL
    events.close()
    client.close()


def test_private_namespace_is_private(lease: MachineLease) -> None:
    assert not [line for line in left_on_machine() if line.startswith("process") and "engine-suite" not in line]
