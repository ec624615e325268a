"""Images with layers: from a registry, or an archive that ``docker save`` wrote. A Docker does the pulling."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kit.engines import Setting
from kit.engines.daemon import Daemon
from kit.engines.system import connect
from kit.errors import KitError, MachineError, RunError
from kit.image import Image, ImageCache
from kit.namespace import covered


def is_archive(path: Path) -> bool:
    """True for what ``docker save`` writes, false for the tarball of a root filesystem."""
    try:
        with tarfile.open(path) as tar:
            return any(member.name == "manifest.json" for _, member in zip(range(50_000), tar, strict=False))
    except (tarfile.TarError, OSError):
        return False


def from_registry(reference: str, cache: ImageCache, setting: Setting, tell: Callable[[str], None]) -> Image:
    """Pull ``reference``, keep its layers and its flattened root filesystem. Raises RunError, MachineError."""
    if ":" not in reference.rpartition("/")[2] and "@" not in reference:
        reference += ":latest"

    def fetch(client: Any) -> Any:
        tell(f"pulling {reference}")
        return client.images.pull(reference)

    key = hashlib.sha256(reference.encode()).hexdigest()[:12]
    return _keep(f"registry-{key}", reference, f"registry, {reference}", fetch, cache, setting)


def from_archive(path: Path, cache: ImageCache, setting: Setting) -> Image:
    """The first image of an archive of ``docker save``."""

    def fetch(client: Any) -> Any:
        with path.open("rb") as file:
            return client.images.load(file)[0]

    stat = path.stat()
    key = hashlib.sha256(f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]
    return _keep(f"archive-{key}", path.name, str(path), fetch, cache, setting)


def _keep(key: str, name: str, origin: str, fetch: Callable[[Any], Any], cache: ImageCache, setting: Setting) -> Image:
    import docker.errors

    def build(rootfs: Path, archive: Path) -> dict[str, str]:
        try:
            with _some_docker(cache, setting) as client:
                image = fetch(client)
                _export(client, image, rootfs, archive)
                entries = image.attrs["Config"].get("Env") or ()
                return dict(entry.split("=", 1) for entry in entries)
        except docker.errors.DockerException as error:
            raise RunError(f"image {name}: {error}", "is the reference right and the registry reachable?") from None

    return cache.make(key, name, origin, build)


def _export(client: Any, image: Any, rootfs: Path, archive: Path) -> None:
    with archive.open("wb") as file:
        file.writelines(image.save(named=True))
    container = client.containers.create(image.id, command=["true"])
    try:
        with rootfs.open("wb") as file:
            file.writelines(container.export())
    finally:
        container.remove(force=True)


@contextmanager
def _some_docker(cache: ImageCache, setting: Setting) -> Iterator[Any]:
    """The running Docker where there is one that we may use, else a private one for the moment."""
    with ExitStack() as stack:
        try:
            client = connect()
            stack.callback(client.close)
        except KitError:
            if os.geteuid() != 0:
                raise MachineError("no Docker to fetch the image with", "start Docker, or run as root") from None
            made = setting.journal.directory(cache.directory / f".pull-{setting.session}", 0o700)
            data = stack.enter_context(made) / "docker"
            stack.enter_context(covered(Path("/run/containerd"), setting.journal))
            daemon = Daemon("vfs", data, setting.run / "pull", f"{setting.cgroup}/pull")
            stack.callback(daemon.stop)
            daemon.start()
            client = daemon.client
        yield client
