"""Images that come with layers: files of Docker and Podman, and a registry where one can be run here."""

import json
import os
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.arms.engines.docker_server import Dockerd
from kit.arms.engines.pull import from_registry
from kit.arms.engines.supervisor import DaemonDirs
from kit.arms.image import Image, ImageCache
from kit.arms.image.image_file import from_image_file, has_layers
from kit.arms.image.recipe import read_recipe
from kit.core.errors import RunError
from kit.core.paths import find_paths
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from tests.command_line import Kit
from tests.image_archives import layer, save
from tests.leftovers import left_on_machine
from tests.needs import needs
from tests.ordinary_user import NOBODY, ordinary_user
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured(clean=True)]


@contextmanager
def docker(tmp_path: Path) -> Iterator[Dockerd]:
    with held_machine(f"image-tests-{os.getpid()}", find_paths(), True, Quiet()) as lease:
        daemon = Dockerd("vfs", DaemonDirs(tmp_path / "data", lease.setting.run / "d", f"{lease.setting.cgroup}/d"))
        try:
            daemon.start()
            yield daemon
        finally:
            daemon.stop()


def two_layers(daemon: Dockerd, probe: Path, tag: str) -> None:
    """An image of two layers: the probe as /bin/spin, and a file over it."""
    import io

    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.add(probe, "bin/spin")
        etc = tarfile.TarInfo("etc")
        etc.type, etc.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(etc)
    daemon.client.api.import_image_from_data(tar.getvalue(), repository="base", tag="1")
    dockerfile = io.BytesIO(b"FROM base:1\nCOPY bin/spin /opt/again\nENV PATH=/bin:/opt\n")
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        archive.add(probe, "bin/spin")
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(dockerfile.getvalue())
        archive.addfile(info, dockerfile)
    context.seek(0)
    daemon.client.images.build(fileobj=context, custom_context=True, tag=tag)


def probe_of(kit: Kit) -> Path:
    kit("compare", "--image", "/nonexistent.tar", "--", "true")  # compiles the probe on its way to the error
    return next((find_paths().cache / "probe").iterdir())


def check(kit: Kit, image: str, *more: str) -> None:
    """Run it on two drivers of Docker and on ``more``."""
    arms = ("bare", "runtime", "layer:overlay2", "layer:btrfs", *more)
    done = kit(
        "compare", "--image", image, "--cache", "cold", "--rounds", "1", "--no-rerun", "--size", "1G", "--json", "-",
        "--arms", ",".join(arms), "--", "again", "spin",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    runs = [row for row in json.loads(done.stdout)["samples"] if row["rerun_of"] is None]
    assert len(runs) == 5 + len(more), done.stdout
    assert left_on_machine() == []


def test_an_archive_keeps_its_layers(kit: Kit, tmp_path: Path) -> None:
    probe = probe_of(kit)
    with docker(tmp_path) as daemon:
        two_layers(daemon, probe, "two:1")
        with (tmp_path / "two.tar").open("wb") as file:
            file.writelines(daemon.client.images.get("two:1").save(named=True))
    check(kit, str(tmp_path / "two.tar"), "layer:containerd/overlayfs")
    assert "two.tar" in kit("image", "list").stdout


def test_a_missing_image_is_explained(kit: Kit) -> None:
    done = kit("compare", "--image", "./nosuch.tar", "--arms", "bare", "--", "true")
    assert done.returncode == 2 and f"no image file {Path.cwd()}/nosuch.tar" in done.stderr


def test_an_unreachable_registry_is_explained(kit: Kit) -> None:
    done = kit("compare", "--image", "127.0.0.1:9/nosuch:1", "--arms", "bare", "--", "true")
    assert done.returncode == 1
    assert "image 127.0.0.1:9/nosuch:1" in done.stderr and "Traceback" not in done.stderr
    assert left_on_machine() == []


@contextmanager
def registry(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "registry.yml"
    config.write_text(
        f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {tmp_path}/reg\nhttp:\n  addr: 127.0.0.1:{port}\n"
    )
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", config], stdout=log, stderr=log, env=dict(os.environ))
    try:
        wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, process=process)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def pulled(tag: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    """Pull as an ordinary user."""
    with monkeypatch.context() as patch:
        home.parent.chmod(0o755)
        patch.setenv("HOME", str(home))
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        with ordinary_user():
            return from_registry(tag, ImageCache(home), print)


@needs("skopeo")
@needs("docker-registry")
def test_an_image_from_a_registry(kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = probe_of(kit)
    with registry(tmp_path) as address, tempfile.TemporaryDirectory(dir="/tmp") as home:
        tag = f"{address}/two:1"
        with docker(tmp_path) as daemon:
            two_layers(daemon, probe, tag)
            said = daemon.client.images.push(tag)
            assert "error" not in said, said
        check(kit, tag)
        assert pulled(tag, Path(home) / "user", monkeypatch).digest in kit("image", "list", "--json", "-").stdout


@needs("podman")
def test_what_podman_writes_is_one_image(tmp_path: Path) -> None:
    tag = "debian:12"
    one, two = layer(("etc", "dir", ""), ("etc/a", "file", "1")), layer(("etc/.wh.a", "file", ""), ("b", "file", "2"))
    paths = [save(tmp_path / "in.tar", one, two), tmp_path / "oci.tar", tmp_path / "docker.tar", tmp_path / "oci"]
    zstd = tmp_path / "zstd"
    with tempfile.TemporaryDirectory(prefix="k-", dir="/tmp") as home:  # Podman accepts short names alone
        for words in (
            ("load", "-i", paths[0]),
            ("save", "--format", "oci-archive", "-o", paths[1], tag),
            ("save", "--format", "docker-archive", "-o", paths[2], tag),
            ("save", "--format", "oci-dir", "-o", paths[3], tag),
            ("push", "--compression-format", "zstd", tag, f"oci:{zstd}:12"),
        ):
            places = ("--root", f"{home}/storage", "--runroot", f"{home}/run", "--storage-driver", "vfs")
            done = subprocess.run(
                ["podman", *places, words[0], "-q", *words[1:]], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
    assert [path for path in (zstd / "blobs/sha256").iterdir() if path.read_bytes().startswith(b"\x28\xb5\x2f\xfd")]
    assert all(has_layers(path) for path in (*paths, zstd))
    cache = ImageCache(tmp_path / "cache")
    found = [from_image_file(path, "", cache) for path in (*paths, zstd)] + [from_image_file(zstd, "12", cache)]
    assert len({image.digest for image in found}) == 1 and {len(image.env) for image in found} == {2}
    with tarfile.open(found[-1].rootfs) as tar:
        assert tar.getnames() == ["./etc", "./b"]


def test_what_a_builder_mounts_is_gone_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A builder that dies can't unmount; its mounts must not outlive it in a directory that somebody removes."""
    program = tmp_path / "bin/mmdebstrap"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nmkdir "$TMPDIR/mounted"\nmount -t tmpfs none "$TMPDIR/mounted"\n'
        'touch "$TMPDIR/mounted/inside"\n[ -e "$TMPDIR/mounted/inside" ] && exit 137\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(RunError, match="building image smoke"):
        read_recipe("smoke").build(tmp_path / "rootfs.tar", tmp_path / "archive.tar", tmp_path / "log")
    assert (tmp_path / "mounted").is_dir()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
