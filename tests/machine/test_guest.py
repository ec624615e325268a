"""Guest kernels: what is sent in and brought back, and a session in a real one."""

import json
import struct
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kit.arms.image import Image
from kit.core.codec import decode, encode
from kit.core.errors import UsageError
from kit.core.exit_code import NOT_RUN
from kit.core.paths import find_paths
from kit.extra.guest.disks import job_text
from kit.extra.guest.kernel import cpio, early_modules, machine_of
from kit.extra.guest.kernel_check import lacking
from kit.host.machine import read_host
from kit.model.arm import parse_arm
from kit.model.plan import PlanStep
from kit.model.sample import Phase, Sample
from kit.model.scenario import command_scenario
from kit.model.session import NotRun, Request, Session
from kit.parsers.figure import Reported
from kit.session.execute.materials import LoadMaterials, Materials
from kit.session.inputs.input_cache import PreparedInput
from kit.session.wire.messages import GuestJob
from tests.command_line import Kit
from tests.leftovers import left_on_machine

IMAGE = Image("i", "d" * 64, "o", 1, 2.5, Path("/cache/i/rootfs.tar"), None, (("PATH", "/bin"),))
SAMPLE = Sample(
    "bare", 1, "measured", "ok", 3.0,
    (Phase("build", "ok", real=1.5, exit_code=0, reported=(Reported("speed", None, "MB/s", "more"),)),),
    digests=(("image", "d"),), rerun_of=None,
)  # fmt: skip


def test_what_is_sent_arrives_as_it_was() -> None:
    scenario = command_scenario(("make", "-j2"), None, None)
    request = Request(command=("make",), arms=("bare",), params=(("jobs", "2"),), precision=0.02)
    session = Session(
        "id", 1.0, "0", "make", "running", request, ("bare",), (("layer:overlay2", "bare"),), 7,
        {"kernel": "k"}, (NotRun("a", "b", "c"),), (SAMPLE,),
    )  # fmt: skip
    folders = {"": (PreparedInput("linux", "tree", Path("/cache/linux.tar"), "e"),)}
    job = GuestJob(session, {"": scenario}, Materials(IMAGE, folders, LoadMaterials(scenario, IMAGE, folders)))
    assert decode(GuestJob, json.loads(json.dumps(encode(job)))) == job
    step = PlanStep(1, parse_arm("layer:podman/overlay+metacopy=on"), "jobs=2")
    assert decode(PlanStep, json.loads(json.dumps(encode(step)))) == step


@pytest.mark.parametrize("home", ["/home/kit", '/home/jörg/"kit" \\'])
def test_what_lies_in_the_cache_is_named_as_the_guest_has_it(home: str) -> None:
    cache = Path(home) / "cache"
    image = replace(IMAGE, rootfs=cache / "images/x/rootfs.tar", origin=f"{cache}/images")
    folders = {"": (PreparedInput("linux", "tree", cache / "inputs/linux.tar", "e"),)}
    scenario = command_scenario(("echo", f"{cache}/kept"), None, None)
    session = Session("id", 1.0, "0", "t", "running", Request(), ("bare",), (), 7)
    sent = decode(GuestJob, json.loads(job_text(GuestJob(session, {"": scenario}, Materials(image, folders)), cache)))
    assert sent.materials.image and sent.materials.image.rootfs == Path("/kit/cache/images/x/rootfs.tar")
    assert sent.materials.folders[""][0].path == Path("/kit/cache/inputs/linux.tar")
    # What only looks like one of its paths, the workload's own command for example, stays.
    assert (sent.scenarios[""], sent.materials.image.origin) == (scenario, image.origin)


def test_a_dry_run_knows_how_many_cores_the_guest_has(kit: Kit, tmp_path: Path) -> None:
    words = ("compare", "kernel:short", "--arms", "bare", "--dry-run", "--guest")
    assert "jobs=1" in kit(*words, "uml", "--guest-cores", "2", KIT_HOME=str(tmp_path / "home")).stdout
    assert "jobs=3" in kit(*words, "qemu", "--guest-cores", "3", KIT_HOME=str(tmp_path / "home")).stdout
    assert not (tmp_path / "home").exists()


def test_a_number_that_json_shortened_is_a_float_again() -> None:
    found = decode(Sample, json.loads(json.dumps(encode(replace(SAMPLE, started=3.0))).replace("3.0", "3")))
    assert isinstance(found.started, float)


def kernel_file(path: Path, head: bytes) -> Path:
    path.write_bytes(head.ljust(0x300, b"\0"))
    return path


def test_a_kernel_says_by_what_it_is_which_machine_boots_it(tmp_path: Path) -> None:
    assert machine_of(kernel_file(tmp_path / "a", b"MZ".ljust(0x202, b"\0") + b"HdrS")) == "qemu"
    assert machine_of(kernel_file(tmp_path / "b", b"\x7fELF")) == "uml"
    for bad in (kernel_file(tmp_path / "c", b"text"), tmp_path / "missing"):
        with pytest.raises(UsageError):
            machine_of(bad)


def test_modules_are_loaded_after_those_that_they_need(tmp_path: Path) -> None:
    (tmp_path / "modules.dep").write_text(
        "kernel/virtio_blk.ko: kernel/virtio-ring.ko kernel/virtio.ko\nkernel/virtio.ko:\n"
        "kernel/virtio-ring.ko: kernel/virtio.ko\nkernel/other.ko:\n"
    )
    (tmp_path / "kernel").mkdir()
    for name in ("virtio_blk", "virtio", "virtio-ring", "other"):
        (tmp_path / f"kernel/{name}.ko").write_bytes(name.encode())
    assert early_modules(tmp_path) == [
        ("virtio", b"virtio"), ("virtio_ring", b"virtio-ring"), ("virtio_blk", b"virtio_blk"),
    ]  # fmt: skip


def test_the_initial_ram_disk_has_the_newc_format() -> None:
    """Header, name and content each begin at a multiple of four (early-userspace/buffer-format.rst)."""
    data = cpio(iter([("bin", 0o040755, b""), ("init", 0o100755, b"hello")]))
    found, at = [], 0
    while at < len(data):
        assert data[at : at + 6] == b"070701"
        numbers = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name = data[at + 110 : at + 110 + numbers[11] - 1].decode()
        start = at + 110 + numbers[11] + -(110 + numbers[11]) % 4
        found.append((name, numbers[1], data[start : start + numbers[6]]))
        at = start + numbers[6] + -numbers[6] % 4
    assert found == [("bin", 0o040755, b""), ("init", 0o100755, b"hello"), ("TRAILER!!!", 0, b"")]
    assert struct.calcsize("13I") == 52


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_kernel_is_asked_for_what_drivers_need() -> None:
    known = Path("/proc/filesystems").read_text()
    assert list(lacking([parse_arm("bare")], find_paths())) == []
    said = list(lacking([parse_arm("layer:aufs"), parse_arm("layer:overlay2"), parse_arm("bind:aufs")], find_paths()))
    assert any("aufs" in line for line in said) == ("aufs" not in known)
    assert any("overlay" in line for line in said) == ("overlay" not in known)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--guest", "uml", "--engine", "system"], "a guest has disks and engines of its own"),
        (["--guest", "uml", "--docker", "/x"], "a guest has disks and engines of its own"),
        (["--modules", "/lib/modules/1"], "--modules needs --kernel"),
        (["--guest-cores", "2"], "--guest-cores needs --guest"),
        (["--kernel", "/nowhere"], "kernel /nowhere: No such file"),
        (["--kernel", "/etc/passwd"], "/etc/passwd is not a kernel"),
        (["--guest", "qemu", "--kernel", "/bin/sh"], "/bin/sh is not a kernel for qemu"),
        (["--guest", "xen"], "'xen' is not one of"),
        (["--docker", "/etc"], "/etc holds no dockerd"),
        (["--docker", "/etc/passwd"], "/etc/passwd: damaged or unsupported"),
    ],
)
@pytest.mark.machine
@pytest.mark.unmeasured
def test_what_does_not_fit_is_said_at_once(kit: Kit, words: list[str], said: str) -> None:
    done = kit("compare", "smoke", "--arms", "host", *words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr


SCRIPT = "for i in 1 2 3 4; do echo $i > f$i; done; busybox uname -r; busybox dd if=/dev/zero of=big bs=1M count=8"


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_a_session_in_a_guest(kit: Kit, uml: None, tiny: Path, tmp_path: Path) -> None:
    """With drivers that this kernel need not have; samples, logs and labels are on the host afterwards."""
    arms = "bare,bind:devicemapper,layer:devicemapper,layer:devicemapper+thinpool,layer:containerd/devmapper,layer:zfs"
    done = kit(
        "compare", "--guest", "uml", "--image", tiny, "--arms", arms, "--rounds", "1", "--cache", "cold",
        "--no-rerun", "--size", "4G", "--json", tmp_path / "out.json", "--csv", tmp_path / "out.csv",
        "--", "sh", "-c", SCRIPT, timeout=600,
    )  # fmt: skip
    assert done.returncode == NOT_RUN, done.stderr + done.stdout
    assert "IN A GUEST: User-Mode Linux" in done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    facts = found["session"]["facts"]
    assert facts["guest"] == "User-Mode Linux" and facts["accelerator"].startswith("none")
    assert facts["host kernel"] == read_host().kernel != facts["kernel"]
    assert facts["machine"] == read_host().machine
    assert [item["arm"] for item in found["session"]["not_run"]] == ["bare@zfs", "layer:zfs"]
    samples = found["samples"]
    assert all(row["status"] == "ok" and row["real"] > 0 for row in samples)
    # A machine that is disturbed has a round more: a repetition of the one that was hit.
    assert len([row for row in samples if row["rerun_of"] is None]) == 5
    for row in samples:
        # Eight megabytes are somewhere: a sync of the backing filesystem alone would leave them in the thin device's.
        assert row["write_bytes"] + row["flush_bytes"] >= 8 << 20, row["arm"]
        assert Path(row["log"]).read_text().splitlines()[0] == facts["kernel"].split()[0]
    assert all("User-Mode Linux" in line for line in (tmp_path / "out.csv").read_text().splitlines()[1:])
    assert left_on_machine() == []
    assert not list(find_paths().state.glob("guest/*"))


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_arms_are_interleaved_in_a_guest(kit: Kit, uml: None, tiny: Path, tmp_path: Path) -> None:
    loop = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    done = kit(
        "compare", "--guest", "uml", "--image", tiny, "--arms", "bare,union:overlay", "--rounds", "1",
        "--cache", "cold", "--no-rerun", "--size", "1G", "--interleave", "0.1s", "--json", tmp_path / "out.json",
        "--", "sh", "-c", loop, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["session"]["facts"]["run order"] == "interleaved"
    rows = [row for row in found["samples"] if row["rerun_of"] is None]
    assert {row["arm"] for row in rows} == {"bare", "union:overlay"}
    for row in rows:
        assert row["status"] == "ok" and row["slices"] >= 2
    assert left_on_machine() == []


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_a_kernel_that_does_not_boot_is_shown_by_its_last_words(
    kit: Kit, uml: None, tiny: Path, tmp_path: Path
) -> None:
    kernel = tmp_path / "linux"
    kernel.write_bytes(Path("/bin/false").read_bytes())  # nor may it be executed, as a download may not
    done = kit("compare", "--kernel", kernel, "--image", tiny, "--arms", "bare", "--", "sh", "-c", "true", timeout=300)
    assert done.returncode == 1
    assert "the guest ended early: its console is empty" in done.stderr and "Traceback" not in done.stderr
    assert left_on_machine() == []


@pytest.mark.machine
@pytest.mark.unmeasured(clean=True)
def test_docker_from_an_archive(kit: Kit, tiny: Path, tmp_path: Path, which: Callable[[str], Path]) -> None:
    """As Docker's archives of static programs are: one directory, docker/."""
    with tarfile.open(tmp_path / "docker-0.tgz", "w:gz", compresslevel=1) as tar:
        for name in ("dockerd", "containerd", "containerd-shim-runc-v2", "runc"):
            tar.add(which(name).resolve(), f"docker/{name}")
    words = ("--docker", tmp_path / "docker-0.tgz", "--image", tiny, "--arms", "bare,layer:overlay2,layer:overlayfs")
    done = kit("compare", *words, "--rounds", "1", "--json", tmp_path / "o.json", "--", "sh", "-c", "true")
    assert done.returncode == NOT_RUN, done.stderr
    session = json.loads((tmp_path / "o.json").read_text())["session"]
    assert session["facts"]["dockerd"].startswith("Docker version")
    log = (find_paths().data / "logs" / session["id"] / "session.log").read_text()
    assert f"PATH={find_paths().cache}/engines/given-" in log
