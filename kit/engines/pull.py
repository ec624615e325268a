"""Images with layers: from an archive of ``docker save``, or pulled from a registry by a private Docker. The user's own
Docker stays untouched, with its images and names."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kit.core.errors import MachineError, RunError
from kit.engines import EngineConfig
from kit.engines.containerd_program import SHIMS
from kit.engines.dockerd import Dockerd
from kit.engines.supervisor import DaemonDirs
from kit.host.namespace import covered
from kit.image import Image, ImageCache
from kit.image.docker_archive import open_packed, read_saved
from kit.image.peer_image import taken_or_built

_CONFIGURATION = Path("/etc/docker/daemon.json")


def is_archive(path: Path) -> bool:
    """Return True for an archive of ``docker save``, False for the tarball of a root filesystem."""
    try:
        with open_packed(path) as tar:
            return any(member.name == "manifest.json" for _, member in zip(range(50_000), tar, strict=False))
    except (tarfile.TarError, OSError):
        return False


def from_archive(path: Path, cache: ImageCache) -> Image:
    """Return the first image of an archive of ``docker save``. Raises UsageError."""
    stat = path.stat()
    key = hashlib.sha256(f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]
    return cache.make(f"saved-{key}", path.name, str(path), lambda rootfs, archive: read_saved(path, rootfs, archive))


def from_registry(reference: str, cache: ImageCache, setting: EngineConfig, tell: Callable[[str], None]) -> Image:
    """Pull ``reference``; keep its layers and its flattened root filesystem. Raises RunError, MachineError."""
    if ":" not in reference.rpartition("/")[2] and "@" not in reference:
        reference += ":latest"

    def build(rootfs: Path, archive: Path) -> dict[str, str]:
        import docker.errors

        saved = rootfs.with_name("saved.tar")
        try:
            with _private_docker(cache, setting) as client:
                tell(f"pulling {reference}")
                image = client.images.pull(reference)
                with saved.open("wb") as file:
                    file.writelines(image.save())
        except docker.errors.DockerException as error:
            raise RunError(
                f"image {reference}: {error}", "check the reference and the connection to the registry"
            ) from None
        env = read_saved(saved, rootfs, archive)
        saved.unlink()
        return env

    key = hashlib.sha256(reference.encode()).hexdigest()[:12]
    make = taken_or_built(f"pulled-{key}", reference, build, tell)
    return cache.make(f"pulled-{key}", reference, f"registry, {reference}", make)


@contextmanager
def _private_docker(cache: ImageCache, setting: EngineConfig) -> Iterator[Any]:
    """Yield the client of a temporary Docker."""
    if os.geteuid() != 0:
        raise MachineError(
            "pulling an image needs root, for a private Docker",
            "run docker pull IMAGE; docker save IMAGE -o image.tar; then give --image ./image.tar",
        )
    with ExitStack() as stack:
        made = setting.journal.directory(cache.directory / f".pull-{setting.session}", 0o700)
        data = stack.enter_context(made) / "docker"
        stack.enter_context(covered(SHIMS, setting.journal))
        words = registry_words(_CONFIGURATION)
        daemon = Dockerd("vfs", DaemonDirs(data, setting.run / "pull", f"{setting.cgroup}/pull"), words=words)
        stack.callback(daemon.stop)
        daemon.start()
        yield daemon.client


def registry_words(configuration: Path) -> tuple[str, ...]:
    """Return how the machine's own Docker reaches registries, as options of another: mirrors, and those without TLS."""
    try:
        known = json.loads(configuration.read_text(encoding="utf-8"))
        return tuple(
            f"--{option}={value}"
            for key, option in (("registry-mirrors", "registry-mirror"), ("insecure-registries", "insecure-registry"))
            for value in known.get(key) or ()
            if isinstance(value, str)
        )
    except (OSError, ValueError, AttributeError, TypeError):
        return ()  # the file is missing, or its Docker can't read it either
